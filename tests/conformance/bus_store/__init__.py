"""One contract, held by the store in memory and the store in a file."""
