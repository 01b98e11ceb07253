"""The two headers that tell a request of ours from one that a foreign page made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.serve import host_allowed, origin_allowed
from parley.serve.origin import Names

PORT = 43_210
NAMES = [b"127.0.0.1", b"localhost", b"[::1]"]


@pytest.mark.parametrize("name", [*NAMES, b"LocalHost"])
def test_a_loopback_name_is_allowed_with_our_port_or_none(name: bytes) -> None:
    assert host_allowed(name, port=PORT)
    assert host_allowed(b"%s:%d" % (name, PORT), port=PORT)


@pytest.mark.parametrize(
    "host",
    [
        None,
        b"",
        b"evil.example",
        b"evil.example:43210",
        b"localhost.evil.example",
        b"127.0.0.1.evil.example:43210",
        b"127.0.0.1:43211",
        b"127.0.0.1:",
        b"127.0.0.1:43210 ",
        b"127.0.0.1:43210\n",
        b"127.0.0.1:+43210",
        b"127.0.0.1:443210",
        b"user@127.0.0.1",
        b"127.0.0.1,evil.example",
        b"localhost/",
        b"::1",
        b"[::1",
        b"[::1]:x",
        b"0.0.0.0",
        b"127.0.0.1" * 100,
        b"\xff",
    ],
)
def test_any_other_host_is_refused_as_dns_rebinding_would_send_it(host: bytes | None) -> None:
    assert not host_allowed(host, port=PORT)


def test_an_extra_name_is_allowed_too() -> None:
    names = Names(frozenset({"192.168.1.7", "workstation.local"}))
    assert host_allowed(b"192.168.1.7:43210", port=PORT, names=names)
    assert host_allowed(b"Workstation.local", port=PORT, names=names)
    assert not host_allowed(b"192.168.1.7:43210", port=PORT)
    assert origin_allowed(b"http://192.168.1.7:43210", b"192.168.1.7:43210", port=PORT, names=names)
    assert not origin_allowed(b"http://192.168.1.7:43210", b"192.168.1.7:43210", port=PORT)


TRUSTED = Names(trusted=frozenset({"parley.example.com", "proxy.lan:8443", "localhost:8000"}))


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (b"parley.example.com", b"https://parley.example.com"),
        (b"Parley.Example.com", b"https://parley.example.com"),
        (b"proxy.lan:8443", b"https://proxy.lan:8443"),
        (b"localhost:8000", b"http://localhost:8000"),
        (b"localhost:8000", b"https://localhost:8000"),
    ],
)
def test_a_trusted_name_is_taken_as_it_is_written_and_its_page_comes_over_https(host: bytes, origin: bytes) -> None:
    assert host_allowed(host, port=PORT, names=TRUSTED)
    assert origin_allowed(origin, host, port=PORT, names=TRUSTED)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (b"parley.example.com", b"http://parley.example.com"),
        (b"parley.example.com", b"https://evil.example"),
        (b"parley.example.com", b"https://parley.example.com:8443"),
        (b"parley.example.com:443", b"https://parley.example.com:443"),
        (b"proxy.lan", b"https://proxy.lan"),
        (b"localhost:8000", b"http://127.0.0.1:8000"),
        (b"sub.parley.example.com", b"https://sub.parley.example.com"),
        (b"parley.example.com", b"null"),
        (b"parley.example.com", b"https://"),
    ],
)
def test_nothing_near_a_trusted_name_is_trusted(host: bytes, origin: bytes) -> None:
    assert not (host_allowed(host, port=PORT, names=TRUSTED) and origin_allowed(origin, host, port=PORT, names=TRUSTED))


def test_a_request_without_origin_is_allowed() -> None:
    assert origin_allowed(None, b"127.0.0.1", port=PORT)
    assert origin_allowed(None, None, port=PORT)


@pytest.mark.parametrize("name", NAMES)
def test_our_own_origin_is_allowed(name: bytes) -> None:
    authority = b"%s:%d" % (name, PORT)
    assert origin_allowed(b"http://" + authority, authority, port=PORT)
    assert origin_allowed(b"http://" + authority, name, port=PORT)


def test_on_port_80_the_origin_has_no_port() -> None:
    assert origin_allowed(b"http://localhost", b"localhost", port=80)
    assert not origin_allowed(b"http://localhost", b"localhost", port=PORT)


@pytest.mark.parametrize(
    "origin",
    [
        b"",
        b"null",
        b"http://evil.example",
        b"http://evil.example:43210",
        b"https://127.0.0.1:43210",
        b"http://127.0.0.1:43211",
        b"http://127.0.0.1:43210/",
        b"http://127.0.0.1:43210@evil.example",
        b"http://localhost:43210",
        b"http://[::1]:43210",
        b"127.0.0.1:43210",
        b"http://" + b"a" * 400,
    ],
)
def test_any_other_origin_is_refused(origin: bytes) -> None:
    assert not origin_allowed(origin, b"127.0.0.1:43210", port=PORT)


@pytest.mark.parametrize("host", [None, b"evil.example:43210", b"x" * 400])
def test_an_origin_is_refused_if_the_host_is(host: bytes | None) -> None:
    assert not origin_allowed(b"http://evil.example:43210", host, port=PORT)


@given(st.binary(max_size=40) | st.from_regex(rb"[a-z0-9.\[\]:]{1,40}", fullmatch=True))
def test_whatever_is_allowed_is_one_of_the_names_we_have(host: bytes) -> None:
    if host_allowed(host, port=PORT):
        assert host.lower().removesuffix(b":%d" % PORT) in NAMES
