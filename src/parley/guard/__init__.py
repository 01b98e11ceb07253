"""The guard: git is told before a commit or a push touches paths that somebody else has leased.

``hooks`` puts a few lines into a repository's pre-commit and pre-push hooks and takes them out again. Those lines call
``check``, which reads the leases from the workspace's file and names who holds what. It warns, or blocks where the
workspace asks for that, and where it cannot tell it lets git go on: a guard that is in the way for no reason gets
removed.
"""
