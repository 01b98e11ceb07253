"""Rules over the inbox: what arrived, once, whether or not it can be read, and the log of what the daemon saw."""
