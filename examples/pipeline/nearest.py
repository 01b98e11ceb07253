"""The messages that are nearest to a text, in a lake with vectors.

Usage: python examples/pipeline/nearest.py LAKE TEXT
"""

import sys
from pathlib import Path

from parley.pipeline import open_session
from parley.pipeline.embed.models import choose_model
from parley.pipeline.embed.run import nearest
from parley.pipeline.lake import Lake, read_table
from parley.pipeline.lake.catalogue.silver import MESSAGES

lake = Lake.open(Path(sys.argv[1]))
spark = open_session()

found = nearest(spark, lake, read_table(spark, lake, MESSAGES), sys.argv[2], choose_model(), limit=3)
for row in found.collect():
    print(f"{row.likeness:.3f} {row.sender}: {row.content_raw}")

spark.stop()
