"""Plugins that the tests write into their workspaces."""

WORDS = '''
def enrich(message, config):
    """Marks each word, and says which version it was in."""
    found, start = [], 0
    for word in message.content_raw.split(" "):
        if word:
            data = {"word": word, "version": message.version}
            found.append({"kind": "word", "span": {"start": start, "end": start + len(word)}, "data": data})
        start += len(word) + 1
    return found
'''
FILES = '''
def extract(message, config):
    """Each word with a dot is a file."""
    return [{"kind": "file", "value_json": {"path": word}} for word in message.content_raw.split() if "." in word]
'''
SLEEPS = (
    WORDS
    + """
_quick = enrich

def enrich(message, config):
    import time

    time.sleep(config["seconds"])
    return _quick(message, config)
"""
)
"""Does what ``WORDS`` does, slowly."""
HURTS = (
    WORDS
    + """
import os, signal, time

_good = enrich

def hang(): time.sleep(10_000)
def spin():
    while True:
        pass
def crash():
    import ctypes
    ctypes.string_at(0)
def leave(): os._exit(0)
def bomb():
    while True:
        try:
            if os.fork() == 0:
                os.setsid()
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
        except OSError:
            pass
def allocate(): return [bytearray(1 << 30) for _ in range(10)]
def large(): return [{"kind": "word", "span": {"start": 0, "end": 1}, "data": {"x": "y" * 100_000_000}}]
def endless():
    while True:
        os.write(1, b"x" * 65_536)
def raises(): raise KeyError("what?")
def wrong_shape(): return [{"kind": "word"}]
def wrong_span(): return [{"kind": "word", "span": {"start": 0, "end": 10_000}, "data": {}}]

def enrich(message, config):
    hurt = globals().get(message.content_raw)
    return hurt() if hurt is not None else _good(message, config)
"""
)
"""Does what ``WORDS`` does, unless the content is the name of something that hurts."""
