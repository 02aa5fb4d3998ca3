"""Record which users use which entities, by day: from permitted decisions over the API, and from imported
records.

Access reviews and the analysis of unused access read it, and no decision does, so a record may be lost when a process is
killed.
"""

from grants.usage.recording import record_use
from grants.usage.records import BadUsage, import_records, import_usage
from grants.usage.storage import (
    UsageRecord,
    add_usage,
    days_of_use,
    days_with_use,
    delete_old_usage,
    first_day_of_use,
    newest_use,
)
