"""The broker's machines, its server and its life."""
