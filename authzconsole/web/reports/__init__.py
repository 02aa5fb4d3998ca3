"""Pages for analyses, runs, schedules and reports. Reports are displayed as tables and charts, and can be
downloaded.

The analyses themselves are in `analytics`.
"""
