"""The process of one user on one machine: outbox, inbox, the links to brokers, the local API, identity, hooks."""
