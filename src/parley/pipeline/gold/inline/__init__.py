"""Counting gold in the driver itself, in arrays, where Spark would take longer to plan its jobs than to do them.

The rules are those of ``parley.pipeline.gold``, written once more for rows that lie in the memory of one process; tests
hold both against each other on random histories. What is in doubt, such as a time that no hub writes so, is left to
Spark before anything is written.
"""
