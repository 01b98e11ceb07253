"""Where a server may listen, and what happens when the port is taken."""

import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load.ports import lasting_port
from parley.core.errors import BindRefused, StartupFailed
from parley.serve import BoundSocket, bind, check_bind


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.9.8.7", "127.9.8.7"),
        ("127.1", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("::1", "::1"),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
    ],
)
def test_loopback_is_allowed_and_comes_back_as_a_number(host: str, address: str) -> None:
    found = check_bind(host, unsafe_network=False)
    # The same address may be written in two ways.
    assert socket.getaddrinfo(found, None)[0][4] == socket.getaddrinfo(address, None)[0][4]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0", "192.168.1.7", "10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1"])
def test_anything_that_the_network_reaches_needs_the_unsafe_switch(host: str) -> None:
    with pytest.raises(BindRefused) as refused:
        check_bind(host, unsafe_network=False)
    assert "--unsafe-network" in refused.value.hint
    assert 20 <= refused.value.exit_code <= 29
    assert check_bind(host, unsafe_network=True)


@pytest.mark.parametrize("unsafe_network", [True, False])
@pytest.mark.parametrize("host", ["", "no-such-host.invalid", "a" * 300, "bad host", "\udcff"])
def test_a_host_that_is_no_address_is_refused_with_its_name(host: str, unsafe_network: bool) -> None:
    with pytest.raises(BindRefused) as refused:
        check_bind(host, unsafe_network=unsafe_network)
    assert refused.value.details["host"] == host


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_allowed_exactly_if_it_is_in_127_8(address: object) -> None:
    if str(address).startswith("127."):
        assert check_bind(str(address), unsafe_network=False) == str(address)
    else:
        with pytest.raises(BindRefused):
            check_bind(str(address), unsafe_network=False)


def close(*bound: BoundSocket) -> None:
    for each in bound:
        each.socket.close()


def test_port_0_takes_a_free_port_and_listens_on_it() -> None:
    bound = bind("127.0.0.1", 0)
    assert bound.port == bound.socket.getsockname()[1] != 0
    assert not bound.asked_port_taken
    assert not bound.socket.getblocking()
    assert not os.get_inheritable(bound.socket.fileno())
    socket.create_connection(("127.0.0.1", bound.port), timeout=10).close()
    close(bound)


def test_a_port_that_was_asked_for_and_is_free_is_taken() -> None:
    port = lasting_port()
    bound = bind("127.0.0.1", port)
    assert bound == BoundSocket(bound.socket, port, False)
    close(bound)


def test_a_taken_port_is_replaced_by_a_free_one_and_said() -> None:
    first = bind("127.0.0.1", 0)
    second = bind("127.0.0.1", first.port)
    assert second.asked_port_taken
    assert second.port not in (0, first.port)
    socket.create_connection(("127.0.0.1", second.port), timeout=10).close()
    close(first, second)


def test_an_address_that_this_machine_does_not_have_is_a_failed_start() -> None:
    with pytest.raises(StartupFailed, match=r"192\.0\.2\.1") as failed:
        bind("192.0.2.1", 0)
    assert failed.value.details == {"host": "192.0.2.1", "port": 0}


def test_ipv6_loopback_is_bound_where_the_machine_has_it() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        bound = bind("::1", 0)
    except StartupFailed:
        pytest.skip("no IPv6 loopback here")
    assert bound.socket.family == socket.AF_INET6
    close(bound)


def test_with_port_0_the_preferred_port_is_taken_if_it_is_free() -> None:
    first = bind("127.0.0.1", lasting_port())
    second = bind("127.0.0.1", 0, preferred=first.port)
    assert second.port not in (0, first.port)
    assert not second.asked_port_taken, "nobody asked for it"
    close(first, second)
    again = bind("127.0.0.1", 0, preferred=first.port)
    assert again == BoundSocket(again.socket, first.port, False)
    close(again)


def test_a_port_that_was_asked_for_wins_over_the_preferred_one() -> None:
    asked, preferred = lasting_port(), lasting_port()
    bound = bind("127.0.0.1", asked, preferred=preferred)
    assert bound.port == asked
    close(bound)
