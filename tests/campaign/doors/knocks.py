"""What strangers say to a server that must be refused: heads that are too large, headers given twice, garbage.

Whatever is refused tries to get something made: by the request itself, or by one that stands behind it and must not be
heard any more.
"""

import asyncio
import random
from collections.abc import Iterator
from typing import NamedTuple

from parley.core.errors import ERRORS
from parley.serve.http import HEADERS_MAX
from parley.serve.shell import GIVEN_ONCE
from tests.campaign.doors.lines import SOURCES, greeting, line_to
from tests.campaign.doors.servers import Target
from tests.conformance.shell.lines import CHUNKED, KEY, UPGRADE, Reply, assert_is_ours, faulty_framings, replies, reply

MIB = 1024 * 1024
RANDOM_TEXTS = 8
ANSWER_SECONDS = 30.0
TRIES = 3
"""A machine may be so busy that a connection is gone before its sender has read why."""
SMUGGLED = "smuggled"


class Knock(NamedTuple):
    """Something that is said on a connection of its own."""

    name: str
    data: bytes
    in_clear: bool = False
    """Whether it is said without TLS to a server that speaks TLS: then no HTTP comes back."""


def knocks(target: Target, rng: random.Random) -> list[Knock]:
    """All of them, in any order."""
    refused = {**dict(_oversized(target)), **faulty_framings(target), **dict(_garbage(target, rng))}
    found = [
        Knock(name, data + target.makes(f"{SMUGGLED}-behind-{number}"))
        for number, (name, data) in enumerate(refused.items())
    ]
    found += [Knock(name, data) for name, data in (*_repeated(target), *_upgrades(target))]
    if target.tls is not None:
        found += [Knock(name, data, in_clear=True) for name, data in _before_tls(target, rng)]
    rng.shuffle(found)
    return found


async def knock(target: Target, said: Knock, rng: random.Random, *, strict: bool) -> list[str]:
    """What is wrong with how the server took it. ``strict`` asks for an answer, and not just the end."""
    answers: list[Reply] = []
    for _ in range(TRIES):
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answers = await _say(target, said, rng.choice(SOURCES))
        except TimeoutError:
            return [f"{said.name}: neither an answer nor an end"]
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            continue
        if answers or said.in_clear or not strict:
            break
    if said.in_clear:
        return [f"{said.name}: answered with {answers[0].status} before TLS"] if answers else []
    if not answers:
        return [f"{said.name}: no answer"] if strict else []
    return [f"{said.name}: {problem}" for answer in answers for problem in refusal_problems(answer)]


def refusal_problems(answer: Reply) -> list[str]:
    """What is wrong with an answer that must be a refusal, in the one shape that all have."""
    if not isinstance(answer.body, dict):
        return [f"answered with {answer.status} and no JSON"]
    known = ERRORS.get(answer.body.get("code", ""))
    if not isinstance(answer.body.get("error"), str) or known is None:
        return [f"answered with {answer.status} {answer.body}"]
    if not (400 <= answer.status < 500 or answer.status == known.status == 503):
        return [f"answered with {answer.status} {known.code}"]
    try:
        assert_is_ours(answer)
    except (AssertionError, KeyError):
        return [f"answered with {answer.status} without our headers: {answer.headers}"]
    return []


async def _say(target: Target, said: Knock, source: str) -> list[Reply]:
    async with line_to(target, source, in_clear=said.in_clear) as (reader, writer):
        writer.write(said.data)
        if said.in_clear:
            text = await reader.read()
            return [Reply(int(text[9:12]), {}, text)] if text.startswith(b"HTTP/") else []
        first = await reply(reader)
        return [first, *(await replies(reader) if first.headers.get("connection") == "close" else [])]


def _oversized(target: Target) -> Iterator[tuple[str, bytes]]:
    much = "x" * MIB
    path = target.health
    for name in ("X-Padding", "Cookie", "Idempotency-Key", "Origin"):
        yield f"1 MiB of {name}", target.get(f"{name}: {much}")
    yield "1 MiB of Authorization", target.head(f"GET {path}", f"Authorization: Bearer {much}")
    yield "1 MiB of Host", f"GET {path} HTTP/1.1\r\nHost: {much}\r\n{target.bearer}\r\n\r\n".encode()
    yield "1 MiB of headers", target.get(*(f"X-{number}: y" for number in range(MIB // 10)))
    yield "a header too many", target.get(*(f"X-{number}: y" for number in range(HEADERS_MAX)))
    yield "a name of 1 MiB", target.get(f"{much}: y")
    yield "a query of 1 MiB", target.head(f"GET {path}?{much}", target.bearer)
    yield "a path of 1 MiB", target.head(f"GET /{much}", target.bearer)
    yield "a method of 1 MiB", target.head(f"{much} {path}", target.bearer)
    yield "an upgrade of 1 MiB", target.head("GET /ws", target.bearer, *UPGRADE, KEY, f"X-Padding: {much}")
    chunked = target.post(CHUNKED)
    yield "a trailer of 1 MiB", chunked + f"0\r\nX-A: {much}\r\n\r\n".encode()
    yield "1 MiB of trailers", chunked + b"0\r\n" + b"X-A: y\r\n" * (MIB // 8) + b"\r\n"
    yield "a chunk with 1 MiB of extensions", chunked + f"1;{much}\r\na\r\n0\r\n\r\n".encode()


def _repeated(target: Target) -> Iterator[tuple[str, bytes]]:
    values = {b"host": target.host, b"authorization": f"Bearer {target.token}", b"origin": f"http://{target.host}"}
    for header in GIVEN_ONCE:
        name = header.decode()
        made = f"{SMUGGLED}-{name}"
        body = len(target.makes(made).partition(b"\r\n\r\n")[2])
        for times in (2, 50):
            # Host, Authorization, Idempotency-Key and Content-Length are there once already.
            lines = [f"{name}: {values.get(header, body if header == b'content-length' else made)}"] * times
            yield f"{times} times {name}", target.makes(made, *lines)


def _garbage(target: Target, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    for number in range(RANDOM_TEXTS):
        yield f"random bytes {number}", b"\xff" + rng.randbytes(rng.randrange(64, 4_096))
    yield "1 MiB of random bytes", b"\x00" + rng.randbytes(MIB)
    yield "a greeting of TLS", greeting(target)
    yield "SSH", b"SSH-2.0-OpenSSH_9.6\r\n"
    yield "a command of Redis", b"*1\r\n$4\r\nPING\r\n"
    yield "frames without an upgrade", b"\x81\x85\x00\x00\x00\x00hello"


def _upgrades(target: Target) -> Iterator[tuple[str, bytes]]:
    path, asked = "/ws", (target.bearer, *UPGRADE, KEY)
    yield "an upgrade without a key", target.head(f"GET {path}", target.bearer, *UPGRADE)
    yield "an upgrade of another version", target.head(f"GET {path}", *asked[:3], "Sec-WebSocket-Version: 7", KEY)
    yield "an upgrade with a bad key", target.head(f"GET {path}", *asked[:4], "Sec-WebSocket-Key: x")
    yield "an upgrade by POST", target.head(f"POST {path}", *asked)
    yield "an upgrade elsewhere", target.head("GET /elsewhere", *asked)
    if target.has_feed:
        yield "frames right behind an upgrade", target.head(f"GET {path}", *asked) + b"\x81\x85\x00\x00\x00\x00hello"
        yield "an upgrade with a body", target.head(f"GET {path}", *asked, "Content-Length: 5") + b"hello"


def _before_tls(target: Target, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    hello = greeting(target)
    yield "a request without TLS", target.makes(f"{SMUGGLED}-in-clear")
    yield "a request behind a greeting", hello + target.makes(f"{SMUGGLED}-behind-greeting")
    yield "random bytes before TLS", b"\xff" + rng.randbytes(1_000)
    yield "garbage and then a greeting", b"garbage" + hello
    yield "a greeting that was changed", hello[:50] + rng.randbytes(50) + hello[100:]
    yield "a record of 64 KiB", b"\x16\x03\x01\xff\xff" + rng.randbytes(65_535)
