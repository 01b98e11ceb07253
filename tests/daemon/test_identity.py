"""Which machine this is: every case of the rules, from a first run to a copied folder."""

import hashlib
import json
from pathlib import Path

import pytest

from parley.daemon.identity import HostId, Record, judge_host, pick_mac, this_host, write_record

HERE = HostId("linux:abc", "00:11:22:33:44:55")
NOW = "2026-01-01T00:00:00.000Z"


def stored(host: HostId, tmp_path: Path) -> bytes:
    write_record(tmp_path / "host.json", host, NOW)
    return (tmp_path / "host.json").read_bytes()


def test_the_fingerprint_is_over_the_version_the_id_and_the_card() -> None:
    assert HERE.fingerprint == hashlib.sha256(b"v2\0linux:abc\x0000:11:22:33:44:55").hexdigest()


def test_the_first_run_writes_the_file_closed_to_others(tmp_path: Path) -> None:
    assert judge_host(None, HERE) == ("first_run", True, "")
    stored(HERE, tmp_path)
    assert (tmp_path / "host.json").stat().st_mode & 0o777 == 0o600


def test_the_same_machine_matches(tmp_path: Path) -> None:
    assert judge_host(stored(HERE, tmp_path), HERE).verdict == "match"


def test_another_card_in_the_same_machine_matches_and_is_remembered(tmp_path: Path) -> None:
    moved = HERE._replace(stable_mac="00:11:22:33:44:99")
    judged = judge_host(stored(HERE, tmp_path), moved)
    assert (judged.verdict, judged.write) == ("match", True)


@pytest.mark.parametrize("other", [HostId("linux:xyz", HERE.stable_mac), HostId("", HERE.stable_mac)])
def test_another_machine_is_a_mismatch_also_with_the_same_card(tmp_path: Path, other: HostId) -> None:
    judged = judge_host(stored(HERE, tmp_path), other)
    assert (judged.verdict, judged.write) == ("mismatch", False)


def test_without_an_id_the_card_is_compared_strictly(tmp_path: Path) -> None:
    nameless = HostId("", HERE.stable_mac)
    assert judge_host(stored(nameless, tmp_path), nameless).verdict == "match"
    assert judge_host(stored(nameless, tmp_path), HostId("", "00:11:22:33:44:99")).verdict == "mismatch"


def test_a_file_of_the_first_version_that_matches_is_written_anew() -> None:
    old = hashlib.sha256(b"linux:abc\x0000:11:22:33:44:55").hexdigest()
    record = json.dumps({"schema_version": 1, "fingerprint": old}).encode()
    assert judge_host(record, HERE) == ("match", True, "")
    assert judge_host(record, HostId("linux:xyz", HERE.stable_mac)).verdict == "mismatch"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", json.dumps({"schema_version": 3, "fingerprint": "x"}).encode()])
def test_a_damaged_or_newer_file_is_neither_believed_nor_overwritten(content: bytes) -> None:
    judged = judge_host(content, HERE)
    assert (judged.verdict, judged.write) == ("unavailable", False)
    assert judged.reason


@pytest.mark.parametrize(
    ("cards", "chosen"),
    [
        ({"wlan0": "00:00:5e:00:00:01", "eth0": "00:00:5e:00:00:02"}, "00:00:5e:00:00:02"),
        ({"enp3s0": "00:00:5e:00:00:03", "enp2s0": "00:00:5e:00:00:02"}, "00:00:5e:00:00:02"),
        ({"lo": "00:00:00:00:00:00", "docker0": "00:00:5e:00:00:01"}, ""),
        ({"veth12": "00:00:5e:00:00:01", "tailscale0": "00:00:5e:00:00:02", "br-1": "00:00:5e:00:00:03"}, ""),
        ({"eth0": "02:00:5e:00:00:01", "wlan0": "00:00:5e:00:00:02"}, "00:00:5e:00:00:02"),
        ({"eth0": "02:00:5e:00:00:01"}, "02:00:5e:00:00:01"),
        ({"eth0": "not a mac"}, ""),
        ({}, ""),
    ],
)
def test_the_most_lasting_card_is_chosen(cards: dict[str, str], chosen: str) -> None:
    assert pick_mac(cards) == chosen


def test_an_id_of_ones_own_takes_the_place_of_the_machines() -> None:
    assert this_host("mine").host_id == "override:mine"
    assert this_host().stable_mac == this_host().stable_mac


def test_what_the_file_holds_can_be_read_back(tmp_path: Path) -> None:
    found = json.loads(stored(HERE, tmp_path))
    assert found == {
        "schema_version": 2,
        "fingerprint": HERE.fingerprint,
        "host_id": "linux:abc",
        "stable_mac": HERE.stable_mac,
        "written_at": NOW,
    }
    assert Record(**found).host_id == "linux:abc"
