"""The campaigns of ``tests.campaign`` in a size that fits every test run, each with the control that must fail."""
