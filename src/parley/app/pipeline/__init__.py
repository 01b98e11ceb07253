"""The pipeline's commands, one module each: from what a user named to hubs, a lake and a Spark session.

The packages of the pipeline are an extra. Importing this one without them raises ``PipelineNotInstalled``, before one
of its modules fails in words that help nobody.
"""

import importlib.util

from parley.core.pipeline_errors import PipelineNotInstalled

NEEDED = ("adbc_driver_sqlite", "deltalake", "pandas", "plotly", "pyarrow", "pyspark")

_missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if _missing:
    raise PipelineNotInstalled(f"The pipeline needs packages that are not installed: {', '.join(_missing)}")
