"""Nothing that version 2 of a broker's protocol adds is removed, renamed, retyped or newly required."""

from collections.abc import Iterator

import pytest

from tests.broker.process import Process, broker
from tests.compat import roster_wire
from tests.compat.contract import losses
from tests.compat.frozen import frozen, held

PROTOCOL = f"broker_protocol_{roster_wire.VERSION}"


@pytest.fixture
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with broker(tmp_path_factory.mktemp("wire") / "broker") as serving:
        yield serving


def test_a_brokers_second_protocol_is_as_daemons_know_it(process: Process) -> None:
    held(PROTOCOL, roster_wire.roster_contract(process))


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (("from_broker", "roster_welcome"), "roster.head.hash"),
        (("from_daemon", "roster_hello"), "fingerprint"),
        (("methods", "routes"), "roster_append"),
        (("close_codes",), "a daemon that knows no rosters"),
    ],
)
def test_control_what_is_missing_is_found(place: tuple[str, ...], name: str) -> None:
    now = frozen(PROTOCOL)
    where = now
    for step in place:
        where = where[step]
    del where[name]
    assert losses(frozen(PROTOCOL), now) == [f"/{'/'.join(place)}/{name} is gone"]
