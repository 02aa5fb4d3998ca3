"""Readiness and metrics for monitoring systems: `/readyz` and `/metrics`.

The records of maintenance tasks.
"""
