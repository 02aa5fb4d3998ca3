"""Analyses, runs, schedules, and reports as tables, charts and downloads.

The analyses themselves are in `analytics`.
"""
