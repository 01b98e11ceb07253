"""A member's own copy of the rosters of its meshes: read, judged and appended to, whatever a broker says."""
