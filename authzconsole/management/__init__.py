"""Management commands. Each command parses its options and calls a service."""
