"""The audit: whether a hub's tables are what its log adds up to, and whether the log itself holds together.

``run.audit`` is the way in. ``checks`` lists what is looked at, without loading Spark.
"""
