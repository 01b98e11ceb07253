"""Vectors of messages, by a model, in the lake.

``models`` chooses a model, ``run`` embeds and finds what is nearest. Importing this package loads neither: the process
in which a model is locked in begins here too.
"""
