"""Gold: how the agents work, counted from what was said and done.

``counting`` has all of it in one place; each rule is a function of DataFrames in a module of its own.
"""
