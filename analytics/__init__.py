"""Analyses of all users and entities: snapshots of the database, runs on Spark, and the reports that they
produce.

Single questions are answered in `grants.evaluation`.
"""
