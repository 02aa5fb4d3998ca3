"""The management commands, one per module."""
