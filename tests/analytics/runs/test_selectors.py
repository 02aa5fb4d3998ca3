"""Test how many changes since the snapshot of a run are reported."""

from datetime import timedelta

import pytest
from django.utils import timezone

from analytics.models import AnalysisRun
from analytics.runs.selectors import changes_since
from entities.address import parse_address
from grants.changes.period_lines import write_period_lines
from grants.journal import current_revision
from grants.models import JobState
from grants.policies.times import format_time
from grants.validity import Validity
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_grant, revoke_grant

pytestmark = pytest.mark.django_db
ORDERS = parse_address("dataset:sales.orders")


def test_a_report_is_not_current_from_the_second_at_which_a_period_ends(monkeypatch):
    create_sample_tenant()
    write_period_lines()
    now = timezone.now().replace(microsecond=0)
    end = now + timedelta(hours=1)
    add_grant("user:out", ORDERS, "READ", Validity(None, end))
    run = AnalysisRun(state=JobState.DONE, revision=current_revision(), summary={"at": format_time(now)})
    assert changes_since(run) == 0
    monkeypatch.setattr(timezone, "now", lambda: end - timedelta(seconds=1))
    assert changes_since(run) == 0
    monkeypatch.setattr(timezone, "now", lambda: end)
    assert changes_since(run) == 1
    # the journal line about the end says the same
    assert write_period_lines() == 1 and changes_since(run) == 1
    revoke_grant("user:dee", ORDERS, "READ")
    assert changes_since(run) == 2
    assert changes_since(None) == changes_since(AnalysisRun(state=JobState.WAITING)) == 0
