"""Record which users use which entities, by day: from permitted decisions over the API, and from imported
records.

Access reviews show the last use. Nothing else depends on it, so a record may be lost when a process is
killed.
"""

from grants.usage.recording import record_use
from grants.usage.records import BadUsage, import_records, import_usage
from grants.usage.storage import days_of_use, delete_old_usage, first_day_of_use, newest_use

__all__ = [
    "BadUsage",
    "days_of_use",
    "delete_old_usage",
    "first_day_of_use",
    "import_records",
    "import_usage",
    "newest_use",
    "record_use",
]
