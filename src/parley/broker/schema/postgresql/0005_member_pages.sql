-- Members are listed in pages, in the order of their ids: each page is one range of this index.
DROP INDEX member_of_mesh;
CREATE INDEX member_of_mesh ON member (mesh_id, state, member_id);
