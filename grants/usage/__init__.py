"""Record which users use which entities, by day: from permitted decisions over the API, and from imported
records.

Access reviews show the last use. Nothing else depends on it, so a record may be lost when a process is
killed.
"""
