"""A real worker applies a plan that it is sent.

It has its own module, because a worker caches the ids of the permissions, and they change with each test.
"""

import time

import pytest

from grants.changes import Shown
from grants.models import JobState, Plan, PlanState, UserGrant
from grants.plans.application import request_application
from tests.support.authors import author_named
from tests.support.changes import create_plan_from_changes

pytestmark = [
    pytest.mark.worker,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]


def test_a_worker_applies_a_plan_while_no_request_waits(cast, worker_console):
    plan = create_plan_from_changes(
        grant=[("user:out", f"dataset:sales.new_{number}", "READ") for number in range(6_000)]
    )
    shown = Shown(accepts_beyond=True)
    job = request_application(author=author_named("ada"), plan_id=plan.pk, shown=shown)
    assert Plan.objects.get(pk=plan.pk).is_proposed
    deadline = time.monotonic() + 240
    while not job.is_finished:
        assert time.monotonic() < deadline, job.state
        time.sleep(0.2)
        job.refresh_from_db()
    assert (job.state, job.error, job.steps_done) == (JobState.DONE, "", 6_000)
    plan.refresh_from_db()
    assert (plan.state, plan.decided_by) == (PlanState.APPLIED, "ada")
    assert UserGrant.objects.filter(user__username="out").count() == 6_000
