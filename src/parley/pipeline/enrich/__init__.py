"""Plugins over all of history: each message once per version and digest, in the sandbox, into the lake and back."""
