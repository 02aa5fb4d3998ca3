"""Management commands; each only parses its options and calls a service."""
