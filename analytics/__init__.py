"""Analyses in bulk: snapshots of the database, runs on Spark, and the reports that they produce.

Single questions are answered in `grants.evaluation`.
"""
