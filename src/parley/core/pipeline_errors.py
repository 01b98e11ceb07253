"""What only the pipeline fails with: its packages, Java and Spark, the hubs it is to read and the lake it fills.

The tree goes on from that of ``errors``::

    LocalError
    ├── PipelineNotInstalled     ├── JavaNotFound          ├── SparkFailed
    ├── HubAmbiguous             ├── LakeNotFound          ├── LakeInvalid
    ├── LakeConflict             ├── AuditNeedsFile        └── BrokerInvalid
    SchemaTooNew
    └── LakeTooNew               (the same code with another hint)
"""

from parley.core.errors import LocalError, SchemaTooNew


class PipelineNotInstalled(LocalError):
    """The packages of the pipeline are not installed."""

    code = "PIPELINE_NOT_INSTALLED"
    hint = "Install them with `pip install 'parley-mesh[pipeline]'`."


class JavaNotFound(LocalError):
    """Spark needs Java 17 or 21, and none was found."""

    code = "JAVA_NOT_FOUND"
    hint = "Install Java 17 or 21 or set JAVA_HOME; `pip install 'parley-mesh[pipeline]'` brings one along."


class SparkFailed(LocalError):
    """Spark did not start, or gave up on a job."""

    code = "SPARK_FAILED"
    hint = "Read the reason. What was committed to the lake stays, and running the command again goes on from there."


class HubAmbiguous(LocalError):
    """Two different files claim to be the same hub, as a copied workspace does."""

    code = "HUB_AMBIGUOUS"
    hint = "Name only one of them; the other is a copy or a backup."


class LakeNotFound(LocalError):
    """There is no lake in the folder, or the lake has no such table or version."""

    code = "LAKE_NOT_FOUND"
    hint = "Name the folder of the lake with --lake; the first ingest makes it."


class LakeInvalid(LocalError):
    """The folder holds something that is not a lake, or a table of the lake does not have the shape it should have."""

    code = "LAKE_INVALID"
    hint = "Name a folder that is a lake, or one that is empty or does not exist yet."


class LakeTooNew(SchemaTooNew):
    """A newer Parley wrote the lake. It is the same refusal, but another way out."""

    hint = "Upgrade with `pip install -U parley-mesh`, or let this version fill a lake of its own with --lake."


class LakeConflict(LocalError):
    """Somebody else committed to the table meanwhile what this commit was based on."""

    code = "LAKE_CONFLICT"
    transient = True
    hint = "Nothing of this run's last step was committed. Run the command again."


class AuditNeedsFile(LocalError):
    """An audit compares a hub's log with its tables, which only its file has; the hub was named by its address."""

    code = "AUDIT_NEEDS_FILE"
    hint = "Run the audit on the hub's machine with --workspace, or on a backup of its workspace."


class BrokerInvalid(LocalError):
    """What was named with ``--broker`` is no broker's store, or cannot be read as one."""

    code = "BROKER_INVALID"
    hint = "Name the broker's file, as a rule ~/.parley/broker/broker.db, or its database as postgresql://…"
