"""The events of hubs in Spark: who wrote how much, and a stream of what is new."""

import sys

from parley.pipeline import open_session, register

workspaces = sys.argv[1]  # a folder, or a pattern such as "/projects/*"

spark = open_session()
register(spark)

events = spark.read.format("parley_hub").option("workspaces", workspaces).load()
created = events.where("name = 'message.created'")
created.selectExpr("get_json_object(data_json, '$.message.sender') as sender").groupBy("sender").count().show()

stream = spark.readStream.format("parley_hub").option("workspaces", workspaces).load()
query = stream.groupBy("name").count().writeStream.outputMode("complete").format("memory").queryName("names")
query.trigger(availableNow=True).start().awaitTermination()
spark.table("names").orderBy("name").show(truncate=False)

spark.stop()
