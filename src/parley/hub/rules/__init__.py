"""Mutation rules: functions over values and a transaction. They read no clock, open nothing and log nothing."""
