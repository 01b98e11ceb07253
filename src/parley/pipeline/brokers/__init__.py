"""What brokers hold, as the pipeline reads it: from their files and databases into tables of the lake.

A broker's history is a log as a hub's is, with one difference: its numbers follow the order of the commits only within
a mesh, so there is a cursor for each mesh. Deliveries change after they were made, and are observed rather than logged.
What members say is sealed, and stays where it is: the lake knows who wrote to whom, when, and how much.
"""
