"""Backups: one file with the database, the reports and the keys, and its restoration into an empty console.

The manifest of a backup lists every file with its size and hash, and is signed with a journal key. Snapshots
are not part of a backup, because the next run takes a new one.
"""
