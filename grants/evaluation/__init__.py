"""Answer questions from the database: gather facts, filter lists, search, and compute visibility.

This package only reads. It evaluates the rules in `grants.policies`.
"""
