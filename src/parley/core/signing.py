"""Signatures under a token: proof that whoever made the bytes holds the token, without the token being shown."""

import hmac


def sign(token: bytes, purpose: bytes, data: bytes) -> bytes:
    """The purpose is part of the key, so that no choice of data for one purpose is a signature for another."""
    return hmac.digest(hmac.digest(token, purpose, "sha256"), data, "sha256")
