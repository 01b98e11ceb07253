"""A database of each kind, closed at the end."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from parley.daemon.databases import open_inbox, open_outbox


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = open_outbox(tmp_path / "outbox.db")
    yield connection
    connection.close()


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = open_inbox(tmp_path / "inbox.db").connection
    yield connection
    connection.close()
