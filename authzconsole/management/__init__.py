"""Management commands on accounts, tokens and the whole console.

Each command parses its options and calls a service.
"""
