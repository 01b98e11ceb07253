"""Which machine this is, so that a copied folder does not run twice under one name.

It finds accidents (a cloned disk, a restored backup, a copied home), not attackers. The machine's own id decides where
there is one: network cards come and go with docks, privacy settings and tunnels. Without an id the card is all there
is, and is compared strictly.
"""

import hashlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from parley.core import untrusted_json
from parley.core.files import write_atomic

SCHEMA: Final = 2
Verdict = Literal["first_run", "match", "mismatch", "unavailable"]
_LINUX_IDS: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_NETWORK: Final = Path("/sys/class/net")
_IGNORED: Final = re.compile(
    r"lo\d*|docker.*|br-.*|bridge.*|veth.*|tap.*|tun.*|tailscale.*|wg.*|utun.*|ppp.*|vboxnet.*|vmnet.*|awdl.*|llw.*"
    r"|anpi.*|ap\d+"
)
_WIRED: Final = re.compile(r"(en|eth).*")
_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_LOCAL_BIT: Final = 0x02


class HostId(NamedTuple):
    """What a machine is known by. Either part may be empty."""

    host_id: str
    stable_mac: str

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"v2\0{self.host_id}\0{self.stable_mac}".encode()).hexdigest()


class Record(msgspec.Struct, frozen=True):
    """``host_fingerprint.json``"""

    schema_version: int
    fingerprint: str
    host_id: str = ""
    stable_mac: str = ""
    written_at: str = ""


class Judgement(NamedTuple):
    """What a start found; ``write`` is set when the file should now say this machine."""

    verdict: Verdict
    write: bool
    reason: str = ""


def judge_host(stored: bytes | None, host: HostId) -> Judgement:
    """Compares the file with the machine. ``stored`` is None when there is no file."""
    if stored is None:
        return Judgement("first_run", True)
    try:
        record = untrusted_json.decode(stored, Record)
    except msgspec.DecodeError:
        return Judgement("unavailable", False, "the file is damaged")
    if record.schema_version == 1:
        old = hashlib.sha256(f"{host.host_id}\0{host.stable_mac}".encode()).hexdigest()
        same = record.fingerprint == old or (record.host_id != "" and record.host_id == host.host_id)
        return Judgement("match", True) if same else Judgement("mismatch", False, "another machine wrote the file")
    if record.schema_version != SCHEMA:
        return Judgement("unavailable", False, f"schema {record.schema_version} is not known")
    if record.fingerprint == host.fingerprint:
        return Judgement("match", False)
    if record.host_id != "" and record.host_id == host.host_id:
        return Judgement("match", True, "another network card")
    return Judgement("mismatch", False, "another machine wrote the file")


def write_record(path: Path, host: HostId, written_at: str) -> None:
    """Says in the file that it belongs to this machine."""
    record = Record(SCHEMA, host.fingerprint, host.host_id, host.stable_mac, written_at)
    write_atomic(path, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def pick_mac(cards: Mapping[str, str]) -> str:
    """The address of the most lasting card: wired before wireless, then by name; made-up addresses only at need."""
    real = {
        name: mac.lower()
        for name, mac in cards.items()
        if not _IGNORED.fullmatch(name) and _MAC.fullmatch(mac.lower()) and mac != "00:00:00:00:00:00"
    }
    lasting = {name: mac for name, mac in real.items() if not int(mac[:2], 16) & _LOCAL_BIT}
    chosen = lasting or real
    ordered = sorted(chosen, key=lambda name: (_WIRED.fullmatch(name) is None, name))
    return chosen[ordered[0]] if ordered else ""


def this_host(override: str = "") -> HostId:
    """What this machine is known by."""
    return HostId(f"override:{override}" if override else _machine_id(), pick_mac(_cards()))


def _machine_id() -> str:
    if sys.platform == "darwin":
        return _platform_uuid()
    for path in _LINUX_IDS:
        try:
            text = path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text:
            return f"linux:{text}"
    return ""


def _platform_uuid() -> str:
    import subprocess

    asked = ["/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=5, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r'"IOPlatformUUID" = "([^"]+)"', answer)
    return f"darwin:{found[1]}" if found else ""


def _cards() -> dict[str, str]:
    cards: dict[str, str] = {}
    try:
        folders = sorted(_NETWORK.iterdir())
    except OSError:
        return cards
    for folder in folders:
        try:
            cards[folder.name] = (folder / "address").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
    return cards
