"""The analyses as PySpark jobs.

Nothing here imports Django: executors receive this code without the console.
"""
