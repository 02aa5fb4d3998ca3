"""Runs of analyses from request to end: queueing, execution, supervision, schedules and retention.

`analytics.spark` computes the results of a run, and `analytics.results` reads them.
"""
