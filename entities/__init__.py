"""Entities of the platform: kinds, operations, addresses, and the table of every address the console knows.

Nothing here knows users or privileges that somebody holds; see `grants`.
"""
