"""The load driver: private server processes, and clients on raw sockets that cost little beside the server."""
