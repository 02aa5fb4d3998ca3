"""Runs of analyses from request to end: queueing, execution, supervision, schedules and retention.

What a run computes is in `analytics.spark`; what it wrote is read in `analytics.results`.
"""
