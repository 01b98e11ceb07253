"""Derived work: plugins run on messages after they were committed, in processes that can hurt nobody."""
