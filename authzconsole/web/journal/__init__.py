"""Pages of the journal: its lines with filters, its downloads and its verification.

Functions that write and verify the journal are in `grants.journal`.
"""
