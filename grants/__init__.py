"""Manage principals and grants: the rules of decisions, changes of grants, plans and the journal.

This package owns the tables of users, grants, plans and the journal. It knows neither Spark nor HTTP.
"""
