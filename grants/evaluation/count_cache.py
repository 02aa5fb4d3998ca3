"""Cache slow counts in the process until the data changes."""

from collections import Counter
from collections.abc import Callable

from django.core.cache import caches
from django.db import transaction

from grants.models import JournalHead


def cached_count(name: str, count: Callable[[], Counter]) -> Counter:
    """Return `count()`, or the cached result of an earlier call with this name if the data has not changed since.

    name: must identify the counted rows and the principal. Runs one query, plus those of `count` if the result is not cached.

    Every change updates the head of the journal in the same transaction (grants.journal), so the hash of the head identifies
    the state of all counted data. The hash is read before counting, so a cached count is never older than its key.
    """
    if transaction.get_connection().in_atomic_block:
        # changes of this transaction may not be journalled yet, and may be rolled back
        return count()
    state = JournalHead.objects.filter(pk=1).values_list("hash", flat=True).first()
    if state is None:
        # without a journal, the console did not write the data, and no hash identifies its state
        return count()
    return caches["counts"].get_or_set(f"{state}:{name}", count)
