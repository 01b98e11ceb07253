"""Rules over the outbox: what was asked to be sent, from when it is on disk until the broker has it or never will."""
