"""The long runs that try to make a hub lose, damage or duplicate something. ``make campaign`` runs them in full."""
