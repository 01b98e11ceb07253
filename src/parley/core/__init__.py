"""Pure values and rules: nothing here opens a file, a socket or a thread, reads a clock or makes up an id by itself."""
