"""Cache slow counts in the process until the data changes."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from django.core.cache import caches
from django.db import transaction

from grants.models import JournalHead
from grants.validity import next_change_of_time


class _Entry(NamedTuple):
    """A cached count. It is correct from `since` on and before `until`; None means no limit."""

    counts: Counter
    since: datetime | None
    until: datetime | None

    def is_correct(self, at: datetime | None) -> bool:
        return (
            at is None
            or self.since is not None
            and self.since <= at
            and (self.until is None or at < self.until)
        )


def cached_count(name: str, count: Callable[[], Counter], *, at: datetime | None) -> Counter:
    """Return `count()`, or the cached result of an earlier call with this name if the data has not changed
    since.

    name: must identify the counted rows and the principal. at: the time at which the counted grants are in
    force; None if the count does not depend on grants. Runs one query; if the result is not cached, also
    those of `count` and one more.

    Every change updates the head of the journal in the same transaction (grants.journal), so the hash of the
    head identifies the state of all counted data. The hash is read before counting, so a cached count is
    never older than its key. Time alone changes counts too, when a grant or membership begins or ends: the
    cached count is used only until then (grants.validity).
    """
    if transaction.get_connection().in_atomic_block:
        # changes of this transaction may not be journalled yet, and may be rolled back
        return count()
    state = JournalHead.objects.filter(pk=1).values_list("hash", flat=True).first()
    if state is None:
        # without a journal, the console did not write the data, and no hash identifies its state
        return count()
    key, cache = f"{state}:{name}", caches["counts"]
    entry = cache.get(key)
    if entry is None or not entry.is_correct(at):
        entry = _Entry(count(), at, next_change_of_time(at) if at else None)
        cache.set(key, entry)
    return entry.counts
