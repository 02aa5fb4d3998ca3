"""Verify the journal: replay it, compare the result with the tables, and compare its lines with anchors
outside the database.
"""
