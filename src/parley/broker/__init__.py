"""The server that meshes meet at: accepting messages, their delivery, members, grants, retention; two stores."""
