"""The audit of brokers: whether their tables agree about every message and delivery, and bronze with them.

Everything is asked of one moment of each broker: a copy of a file, one transaction of a database. It needs no Spark.
"""
