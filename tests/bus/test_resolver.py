"""Where a peer is looked for: what is announced, where it was last reached, what a file says. All of it is a claim."""

from pathlib import Path

import pytest

from parley.bus.announcements import Announcements
from parley.bus.fingerprint import Fingerprint, fingerprint_of
from parley.bus.fixed_addresses import FixedAddresses, read_fixed_addresses
from parley.bus.home import BusHome
from parley.bus.last_addresses import LastAddresses
from parley.bus.resolver import LanResolver
from parley.bus.transport import Address
from parley.core import limits
from parley.core.bus_errors import FileDamaged, FileUnsafe
from tests.bus.agents import ADA_NAME, BOB_NAME

ONE, TWO, THREE, FOUR = (Address(f"192.0.2.{number}", 7_000 + number) for number in range(1, 5))


def somebody(number: int) -> Fingerprint:
    return fingerprint_of(number.to_bytes(32))


def write(home: BusHome, *lines: str) -> None:
    """What somebody writes into the file of fixed addresses."""
    home.peers.write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def home(tmp_path: Path) -> BusHome:
    return BusHome(tmp_path)


def test_what_is_announced_comes_first_then_the_last_address_then_the_file(home: BusHome) -> None:
    announced, last = Announcements(), LastAddresses(home)
    last.reached(BOB_NAME, TWO)
    write(home, f"{BOB_NAME.hex()} {THREE.host}:{THREE.port}")
    resolver = LanResolver(ADA_NAME, announced=announced, last=last, fixed=FixedAddresses(home))
    assert resolver.candidates(BOB_NAME) == [TWO, THREE]
    announced.put("record", BOB_NAME, [ONE])
    assert resolver.candidates(BOB_NAME) == [ONE, TWO, THREE]
    announced.drop("record")
    assert resolver.candidates(BOB_NAME) == [TWO, THREE]


def test_an_announced_address_that_has_worked_is_tried_before_whatever_else_is_announced(home: BusHome) -> None:
    announced, last = Announcements(), LastAddresses(home)
    resolver = LanResolver(ADA_NAME, announced=announced, last=last, fixed=FixedAddresses(home))
    announced.put("honest", BOB_NAME, [TWO])
    announced.put("spoofed", BOB_NAME, [ONE])
    assert resolver.candidates(BOB_NAME) == [ONE, TWO]
    last.reached(BOB_NAME, TWO)
    assert resolver.candidates(BOB_NAME) == [TWO, ONE]


def test_whoever_announces_many_false_addresses_does_not_hide_what_is_known_of_a_peer(home: BusHome) -> None:
    """Each false one can take as long as a dial may, and together they take longer than a request."""
    announced, last = Announcements(), LastAddresses(home)
    resolver = LanResolver(ADA_NAME, announced=announced, last=last, fixed=FixedAddresses(home))
    last.reached(BOB_NAME, TWO)
    write(home, f"{BOB_NAME.hex()} {THREE.host}:{THREE.port}")
    for number in range(100):
        announced.put(f"spoofed {number}", BOB_NAME, [Address("192.0.2.9", 1_000 + number)])
    assert resolver.candidates(BOB_NAME)[1:3] == [TWO, THREE]


def test_peers_are_those_of_all_sources_and_not_oneself(home: BusHome) -> None:
    announced, last = Announcements(), LastAddresses(home)
    last.reached(somebody(1), ONE)
    write(home, f"{somebody(2).hex()} {TWO.host}:{TWO.port}")
    resolver = LanResolver(ADA_NAME, announced=announced, last=last, fixed=FixedAddresses(home))
    seen: list[Fingerprint] = []
    resolver.watch(seen.append)
    for name in (somebody(3), ADA_NAME, somebody(3)):
        announced.put("record", name, [THREE])
    assert set(resolver.peers()) == {somebody(1), somebody(2), somebody(3)}
    assert seen == [somebody(3), somebody(3)]
    assert resolver.candidates(ADA_NAME) == []


def test_announcements_are_bounded_for_each_peer_and_in_all() -> None:
    announced = Announcements()
    for number in range(100):
        announced.put(f"of one {number}", BOB_NAME, [Address("192.0.2.1", 1_000 + number)])
    newest = [Address("192.0.2.1", port) for port in (1_099, 1_098, 1_097, 1_096)]
    assert announced.candidates(BOB_NAME) == newest[: limits.BUS_ANNOUNCEMENTS_PER_PEER_MAX]
    announced.put("many", BOB_NAME, [Address("192.0.2.1", port) for port in range(1, 100)])
    assert len(announced.candidates(BOB_NAME)) == limits.BUS_ANNOUNCED_ADDRESSES_MAX
    for number in range(2 * limits.BUS_ANNOUNCEMENTS_MAX):
        announced.put(f"of many {number}", somebody(number), [ONE])
    assert len(announced.peers()) == limits.BUS_ANNOUNCEMENTS_MAX


def test_the_last_address_is_there_after_a_restart_and_in_a_file_of_its_owners(home: BusHome) -> None:
    LastAddresses(home).reached(BOB_NAME, ONE)
    LastAddresses(home).reached(BOB_NAME, TWO)
    assert home.addresses.stat().st_mode & 0o777 == 0o600
    assert LastAddresses(home).candidates(BOB_NAME) == [TWO]
    assert LastAddresses(home).candidates(ADA_NAME) == []


def test_last_addresses_are_bounded_and_those_that_were_reached_last_are_kept(
    home: BusHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BUS_PEERS_KEPT", 3)
    last = LastAddresses(home)
    for number in range(5):
        last.reached(somebody(number), ONE)
    assert last.peers() == LastAddresses(home).peers() == {somebody(2), somebody(3), somebody(4)}


@pytest.mark.parametrize("content", [b"", b"[", b'[{"peer": "x"}]', b'[{"peer": "' + b"0" * 64 + b'", "host": 1}]'])
def test_last_addresses_that_cannot_be_read_are_begun_anew(home: BusHome, content: bytes) -> None:
    home.addresses.write_bytes(content)
    home.addresses.chmod(0o600)
    last = LastAddresses(home)
    assert last.peers() == set()
    last.reached(BOB_NAME, ONE)
    assert LastAddresses(home).candidates(BOB_NAME) == [ONE]


def test_last_addresses_that_others_can_change_are_refused(home: BusHome) -> None:
    LastAddresses(home).reached(BOB_NAME, ONE)
    home.addresses.chmod(0o622)
    with pytest.raises(FileUnsafe):
        LastAddresses(home)


def test_last_addresses_that_cannot_be_written_fail_nobody(home: BusHome) -> None:
    last = LastAddresses(BusHome(home.root / "missing"))
    last.reached(BOB_NAME, ONE)
    assert last.candidates(BOB_NAME) == [ONE]


def test_fixed_addresses_are_read_from_lines(home: BusHome) -> None:
    bob, ada = BOB_NAME.hex(), ADA_NAME.hex()
    home.peers.write_text(
        f"# the office\n\n{bob} build.example:7465  # by cable\n{bob} [fd00::2]:7466\n{ada.upper()}\t192.0.2.7:1\n"
    )
    assert read_fixed_addresses(home) == {
        BOB_NAME: [Address("build.example", 7465), Address("fd00::2", 7466)],
        ADA_NAME: [Address("192.0.2.7", 1)],
    }


def test_there_need_be_no_fixed_addresses(home: BusHome) -> None:
    assert read_fixed_addresses(home) == {}


@pytest.mark.parametrize(
    "line",
    [
        "build.example:7465",
        f"{BOB_NAME.hex()[:12]} build.example:7465",
        f"{BOB_NAME.hex()} build.example",
        f"{BOB_NAME.hex()} build.example:0",
        f"{BOB_NAME.hex()} build.example:70000",
        f"{BOB_NAME.hex()} fd00::2:7466",
        f"{BOB_NAME.hex()} build.example:7465 again",
        "\n".join(f"{BOB_NAME.hex()} build.example:{port}" for port in range(1, limits.BUS_FIXED_ADDRESSES_MAX + 2)),
    ],
)
def test_a_line_that_cannot_be_read_is_named(home: BusHome, line: str) -> None:
    home.peers.write_text(f"# a comment\n{line}\n")
    with pytest.raises(FileDamaged) as refused:
        read_fixed_addresses(home)
    assert refused.value.details["line"] == line.count("\n") + 2


def test_a_file_of_addresses_that_is_no_text_or_without_end_is_refused(home: BusHome) -> None:
    for content in (b"\xff\xfe\n", b"# \n" * 100_000):
        home.peers.write_bytes(content)
        with pytest.raises(FileDamaged):
            read_fixed_addresses(home)


def test_fixed_addresses_are_read_again_when_they_have_changed_and_can_be_read(home: BusHome) -> None:
    fixed = FixedAddresses(home)
    assert fixed.peers() == set()
    write(home, f"{BOB_NAME.hex()} 192.0.2.1:7001")
    assert fixed.candidates(BOB_NAME) == [ONE]
    write(home, f"{BOB_NAME.hex()} 192.0.2.2:7002", "half an edit")
    assert fixed.candidates(BOB_NAME) == [ONE]
    write(home, f"{BOB_NAME.hex()} 192.0.2.2:7002")
    assert fixed.candidates(BOB_NAME) == [TWO]
    home.peers.unlink()
    assert fixed.peers() == set()
