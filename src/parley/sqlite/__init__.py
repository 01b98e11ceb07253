"""The engine room: how every part of Parley opens, migrates, writes, checkpoints, backs up and checks a SQLite file.

``AsyncWriter`` is in ``parley.sqlite.async_writer``: it loads asyncio, which a command that only reads does not need.
"""

from parley.sqlite.backup import backup_name, online_backup
from parley.sqlite.batch import Outcome, Write, run_batch
from parley.sqlite.checked import back_up, is_there, open_checked, refuse_newer
from parley.sqlite.checkpoint import Checkpointer, CheckpointResult, checkpoint_once, wal_bytes
from parley.sqlite.checks import ForeignKeyViolation, foreign_key_check, integrity_check
from parley.sqlite.connect import Synchronous, apply_pragma, close_quietly, open_reader, open_writer
from parley.sqlite.faults import ends_transaction, translate
from parley.sqlite.file_watch import FileWatch
from parley.sqlite.migrate import Migration, MigrationReport, load_migrations, migrate, split_statements
from parley.sqlite.space import compact, give_back, gives_back
from parley.sqlite.writer import Batch, Writer

__all__ = [
    "Batch",
    "CheckpointResult",
    "Checkpointer",
    "FileWatch",
    "ForeignKeyViolation",
    "Migration",
    "MigrationReport",
    "Outcome",
    "Synchronous",
    "Write",
    "Writer",
    "apply_pragma",
    "back_up",
    "backup_name",
    "checkpoint_once",
    "close_quietly",
    "compact",
    "ends_transaction",
    "foreign_key_check",
    "give_back",
    "gives_back",
    "integrity_check",
    "is_there",
    "load_migrations",
    "migrate",
    "online_backup",
    "open_checked",
    "open_reader",
    "open_writer",
    "refuse_newer",
    "run_batch",
    "split_statements",
    "translate",
    "wal_bytes",
]
