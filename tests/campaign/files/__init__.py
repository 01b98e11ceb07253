"""Files that are taken away, replaced, cut short or closed under servers that are at work."""
