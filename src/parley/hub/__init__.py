"""The server of one workspace: mutations, the event log, the HTTP API, the WebSocket feed, plugin jobs, the page."""
