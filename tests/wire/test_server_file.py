"""``server.json``."""

import msgspec
import pytest

from parley.wire.server_file import ServerFile

FIELDS = ("i", "d", 4242, "127.0.0.1", "0" * 64, 17, "2026-01-01T00:00:00.000Z")


def test_it_has_the_members_that_existing_clients_read() -> None:
    assert msgspec.json.decode(msgspec.json.encode(ServerFile(*FIELDS))) == {
        "instance_id": "i",
        "db_id": "d",
        "port": 4242,
        "host": "127.0.0.1",
        "auth_token": "0" * 64,
        "pid": 17,
        "started_at": "2026-01-01T00:00:00.000Z",
        "protocol_version": "v1",
        "schema_version": 1,
        "state_inode": 0,
    }


@pytest.mark.parametrize(("host", "url"), [("127.0.0.1", "http://127.0.0.1:4242"), ("::1", "http://[::1]:4242")])
def test_its_url_brackets_an_ipv6_address(host: str, url: str) -> None:
    assert ServerFile(*FIELDS[:3], host, *FIELDS[4:]).base_url == url
