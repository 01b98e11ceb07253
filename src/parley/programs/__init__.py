"""Agent programs: the config, the wake-up hooks and the primer that each is given so that its agents find Parley.

What a program's files look like stands in ``catalogue``. The files are the user's own, so they are edited and never
written anew: ``json_file``, ``toml_file`` and ``section`` change the few bytes that are ours and can take them back to
the last byte. ``hooks`` speaks to the program when it calls, ``news`` knows what there is to tell.
"""
