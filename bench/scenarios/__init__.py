"""One module per thing that is measured."""
