"""Management commands on analyses and their storage."""
