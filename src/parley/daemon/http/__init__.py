"""The local API: HTTP over a unix socket and over loopback."""
