"""Counts that take long, kept by a process for who asks again before anything is changed."""

from collections import Counter
from collections.abc import Callable

from django.core.cache import caches
from django.db import transaction

from grants.models import JournalHead


def cached_count(name: str, count: Callable[[], Counter]) -> Counter:
    """What `count` finds, or found by the same name in the same state of the data. name: tells what is counted, and for whom,
    from anything else. One query, and those of `count`.

    Every change moves the head of the journal in its own transaction (grants.journal), so that its hash stands for one state of
    all that is counted; it is read before, so that what is kept under it is never older.
    """
    if transaction.get_connection().in_atomic_block:
        # what it has written may not be journalled yet, and may be taken back
        return count()
    state = JournalHead.objects.filter(pk=1).values_list("hash", flat=True).first()
    if state is None:
        # nothing was ever journalled: what there is was not written by the console
        return count()
    return caches["counts"].get_or_set(f"{state}:{name}", count)
