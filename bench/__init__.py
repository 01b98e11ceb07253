"""Measures the hub as its users meet it, beside Redis Streams and NATS JetStream, on one machine in one run."""
