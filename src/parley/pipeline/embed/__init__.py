"""Vectors of messages, by a model, in the lake."""
