"""Principals and grants: who may do what, and every change to that.

This package owns the tables of users, grants, plans and the journal. It knows neither Spark nor HTTP.
"""
