"""Answer questions from the database: gather facts, filter lists, search, and compute visibility.

This package only reads. The rules it evaluates are in `grants.policies`.
"""
