"""The plugins that come with Parley. They run in the sandbox like any other."""
