"""Delete security events that are older than SECURITY_EVENTS_KEPT_DAYS."""

import logging
from datetime import timedelta

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from authzconsole.models import SecurityEvent

logger = logging.getLogger(__name__)

ROWS_AT_ONCE = 10_000
MAX_BATCHES = 100


def clean_security_events() -> int:
    """Delete old events in short transactions and return their number.

    At most MAX_BATCHES batches; the next call continues.
    """
    if not settings.SECURITY_EVENTS_KEPT_DAYS:
        return 0
    before, deleted = timezone.now() - timedelta(days=settings.SECURITY_EVENTS_KEPT_DAYS), 0
    for _ in range(MAX_BATCHES):
        numbers = list(
            SecurityEvent.objects.filter(at__lt=before)
            .order_by("pk")
            .values_list("pk", flat=True)[:ROWS_AT_ONCE]
        )
        if not numbers:
            break
        # the model's own queryset refuses to delete rows
        QuerySet(SecurityEvent).filter(at__lt=before, pk__lte=numbers[-1]).delete()
        deleted += len(numbers)
    if deleted:
        logger.info(
            "%d security events were deleted: SECURITY_EVENTS_KEPT_DAYS is %d",
            deleted,
            settings.SECURITY_EVENTS_KEPT_DAYS,
        )
    return deleted
