"""Values and rules that every room shares. The rules are pure; only `clock`, `files`, `flags`, `held_files`, `ids`,
`instance_lock`, `locks`, `sealing`, `setting_files` and `writable` touch the machine: its clock, its files, its
randomness.

A rule is handed what these give, so that a failure can be replayed.
"""
