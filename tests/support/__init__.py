"""Helpers for several test packages: tenants, accounts, reports and workers.

Fixtures are in the `conftest.py` of the folder that uses them.
"""
