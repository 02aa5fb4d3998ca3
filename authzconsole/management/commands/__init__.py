"""The management commands. Each parses its options and calls a service."""
