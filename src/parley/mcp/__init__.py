"""The tools that an agent calls through the Model Context Protocol, over the client. No rules of its own."""
