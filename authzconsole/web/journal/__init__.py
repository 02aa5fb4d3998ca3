"""The journal as pages, filters and downloads.

Writing and verifying the journal is in `grants.journal`.
"""
