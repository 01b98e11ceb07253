"""Plugins: what their authors import, the built-in ones, the worker that runs one, and the session that drives it."""

from parley.plugin.contract import Attachment, Enrichment, Message
from parley.plugin.helpers import find, link, mark
from parley.wire.entities import Span

__all__ = ["Attachment", "Enrichment", "Message", "Span", "find", "link", "mark"]
