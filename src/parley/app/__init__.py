"""The composition root: the only room that knows every other one.

It starts and stops hubs, examines and repairs workspaces, and measures. The command line names its modules by string
and loads them on demand.
"""
