"""The server of one workspace: mutations, the event log, the HTTP API and the WebSocket feed."""
