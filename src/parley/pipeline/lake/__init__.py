"""The lake: a folder of Delta tables that any Delta reader reads, written by Spark's tasks and committed by delta-rs.

How a part of the pipeline writes a table::

    lake = Lake.open_or_create(folder)
    base = table_version(lake, TABLE)                      # before anything is computed from the table's own content
    files = stage(frame, lake, TABLE)                      # tasks write Parquet files; nobody sees them yet
    try:
        commit(lake, TABLE, files, cursors=[Step("parley.silver.messages.<db_id>", expected=41, reached=97)],
               replace=partitions_of(files), base=base)
    except BaseException:
        discard(lake, TABLE, files)                        # removes what no version refers to
        raise

One commit is all or nothing: the files it adds, the files it takes away and the cursors that it moves become visible
together. A commit is refused with ``LakeConflict`` if a cursor is not where the caller last saw it, or if the replaced
partitions are not as they were at ``base``; the caller then reads again and repeats its work. Nothing has to be locked.

Reading is ``read_table(spark, lake, TABLE)``; ``register_views`` gives every table its name in SQL. All of it runs
through Spark Connect: tasks are ``mapInArrow`` functions, and only the driver's process talks to the Delta log. The
lake's folder has to be reachable by one path from the driver and from the workers.
"""

from parley.pipeline.lake.commit import WHOLE, Step, commit, cursor, discard, table_version
from parley.pipeline.lake.files import DataFile, partitions_of, stage
from parley.pipeline.lake.place import Lake
from parley.pipeline.lake.reading import read_table, register_views
from parley.pipeline.lake.tables import Table

__all__ = [
    "WHOLE",
    "DataFile",
    "Lake",
    "Step",
    "Table",
    "commit",
    "cursor",
    "discard",
    "partitions_of",
    "read_table",
    "register_views",
    "stage",
    "table_version",
]
