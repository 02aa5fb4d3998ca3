"""The journal of the benchmark describes the tenant of the benchmark, so `verify_journal` accepts it."""

import pytest

from benchmarks.bench_journal import write_journal
from grants.models import JournalLine
from grants.verification.replay import first_fault
from tests.support.random_tenants import random_tenant, store_tenant

LINES = 500


@pytest.mark.django_db
def test_the_journal_has_the_given_number_of_lines_and_is_intact():
    store_tenant(random_tenant(3), has_periods=False)
    JournalLine.objects.all().delete()
    write_journal(LINES)
    assert LINES - 1 <= JournalLine.objects.count() <= LINES
    assert {"grant", "revoke", "register", "member-add"} <= set(
        JournalLine.objects.values_list("action", flat=True)
    )
    assert first_fault() is None
