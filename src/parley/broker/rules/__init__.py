"""What a broker decides, as functions over a transaction and values. None reads a clock or makes up an id."""
