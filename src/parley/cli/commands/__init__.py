"""One module per command or group of commands; each has an ``app`` that ``root`` loads by name."""
