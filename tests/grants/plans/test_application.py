"""A job applies a plan with many changes as `apply_plan` does: all of it or nothing, once, and with the same checks."""

import threading
import time

import pytest
from django.db import connection

from entities.address import parse_grantable
from grants.authority.four_eyes import application_fault
from grants.change_set import ChangeSet, Grant
from grants.changes import Shown
from grants.derived import first_derived_fault
from grants.errors import NotAdministrator, PlanError, SecondPersonRequired
from grants.jobs import REFUSED, run_job
from grants.models import Job, JobState, JournalLine, Plan, PlanState, Role, User, UserGrant
from grants.plans.application import (
    cancel_application,
    large_change_count,
    request_application,
)
from grants.plans.permission_effect import plan_effect
from grants.progress import progress_to
from tests.support.authors import all_grants, author_named, database_state
from tests.support.cast import create_sample_tenant
from tests.support.changes import (
    add_grant,
    apply_plan,
    change_planned_grants,
    create_plan_from_changes,
    discard_plan,
    revoke_grant,
)
from tests.support.guardrails import FORBID, add_guardrail

pytestmark = pytest.mark.django_db
PATTERN = "dataset:sales.*"
ACCEPTED = Shown(accepts_beyond=True)


@pytest.fixture
def cast(sent_tasks):
    return create_sample_tenant()


@pytest.fixture
def plan(cast):
    addresses = "dataset:sales.orders", "dataset:sales.customers", "dataset:hr.salaries"
    return create_plan_from_changes(grant=[("user:out", address, "READ") for address in addresses])


def request(plan, *, author=None, shown=ACCEPTED):
    return request_application(author=author or author_named("ada"), plan_id=plan.pk, shown=shown)


def execute(job):
    run_job(job.pk)
    job.refresh_from_db()
    return job


def is_refused(plan, job) -> str:
    """Return the error of the job, after checking that it changed nothing."""
    before = database_state()
    execute(job)
    assert job.state == JobState.FAILED
    assert database_state() == before
    assert not UserGrant.objects.filter(user__username="out").exists()
    return job.error


def test_a_grant_on_a_pattern_counts_once_more_for_each_address_that_it_matches(cast, settings):
    settings.APPLY_MAX_CHANGES = 4
    grants = [Grant("user:out", parse_grantable(PATTERN), "READ")]
    assert large_change_count(ChangeSet.of(*grants)) == 5
    assert large_change_count(create_plan_from_changes(grant=[("user:out", PATTERN, "READ")])) == 5
    settings.APPLY_MAX_CHANGES = 5
    assert large_change_count(ChangeSet.of(*grants)) == 0


def test_the_job_applies_the_plan_with_the_author_and_the_reason_of_the_request(plan):
    author = author_named("ada", reason="for the audit")
    shown = Shown(plan_effect(plan).digest, is_required=True, accepts_beyond=True)
    job = execute(request(plan, author=author, shown=shown))
    assert (job.state, job.error) == (JobState.DONE, "")
    plan.refresh_from_db()
    assert (plan.state, plan.decided_by, plan.reason) == (PlanState.APPLIED, "ada", "for the audit")
    lines = JournalLine.objects.filter(action="grant", detail__contains=f"plan {plan.pk}")
    assert set(lines.values_list("actor", "reason")) == {("ada", "for the audit")} and len(lines) == 3
    assert plan.effect["permissions"]["for"]["gained"]


def test_each_check_is_made_when_the_job_is_requested(plan, cast, settings):
    for author, error in (
        (author_named("aud"), NotAdministrator),
        (author_named("out"), NotAdministrator),
        (author_named("ada", reason=" "), PlanError),
    ):
        with pytest.raises(error):
            request(plan, author=author)
    settings.FOUR_EYES, settings.FOUR_EYES_MAX_ITEMS = True, 2
    own = create_plan_from_changes(author=author_named("ada"), grant=[("user:out", PATTERN, "READ")])
    with pytest.raises(SecondPersonRequired):
        request(own)
    assert not Job.objects.exists()


def test_a_plan_has_one_unfinished_job(plan):
    job = request(plan)
    assert request(plan) == job
    cancel_application(plan, author=author_named("ada"))
    assert request(plan) != job


def test_a_job_that_is_repeated_applies_the_plan_once(plan):
    job = execute(request(plan))
    before = database_state()
    # a second message, and the attempt after a worker that was taken for dead
    run_job(job.pk)
    Job.objects.filter(pk=job.pk).update(state=JobState.WAITING)
    assert "was already applied by ada" in execute(job).error
    assert database_state() == before


def test_a_plan_that_was_applied_or_discarded_meanwhile_is_not_applied_again(plan, cast):
    job = request(plan)
    apply_plan(plan)
    assert "was already applied" in execute(job).error
    other = create_plan_from_changes(grant=[("user:dee", "dataset:hr.salaries", "READ")])
    job = request(other)
    discard_plan(other)
    assert "was already discarded" in execute(job).error
    assert ("user:dee", "dataset:hr.salaries", "READ") not in all_grants()


def test_a_failure_in_the_middle_changes_nothing(plan, monkeypatch):
    monkeypatch.setattr("grants.plan_items.ITEMS_PER_BATCH", 1)
    change_planned_grants(plan)
    last = plan.items.order_by("-position").first()
    plan.items.filter(pk=last.pk).update(valid_until="2001-01-01T00:00:00Z")
    error = is_refused(plan, request(plan))
    assert f"item 3 of plan {plan.pk} cannot be applied" in error
    plan.refresh_from_db()
    assert plan.is_proposed


def test_data_that_changed_meanwhile_refuses_the_plan(plan):
    job = request(plan)
    revoke_grant("user:ned", "dataset:sales.orders", "ADMIN")
    assert f"plan {plan.pk}" in is_refused(plan, job) and "revision" in job.error


def test_another_effect_than_the_one_that_was_shown_refuses_the_plan(cast):
    plan = create_plan_from_changes(grant=[("group:operators", PATTERN, "READ")])
    job = request(plan, shown=Shown(plan_effect(plan).digest, is_required=True, accepts_beyond=True))
    # the plan is not stale, because this is no change of its item
    add_grant("group:operators", "dataset:sales.orders", "READ")
    assert "look at the new effect" in is_refused(plan, job)


def test_a_guardrail_refuses_the_plan(cast):
    plan = create_plan_from_changes(grant=[("user:out", "dataset:sales.orders", "WRITE")])
    job = request(plan)
    add_guardrail("no-writers", FORBID)
    assert "no-writers" in is_refused(plan, job)


def test_a_journal_that_cannot_be_signed_is_a_failure_and_no_refusal(plan, settings):
    refused = request(plan)
    discard_plan(plan)
    assert "was already discarded" in is_refused(plan, refused) and refused.summary == {REFUSED: True}
    failed = request(create_plan_from_changes(grant=[("user:out", "dataset:hr.salaries", "READ")]))
    settings.JOURNAL_KEYS = ["w" * 40]
    assert "JOURNAL_KEYS" in is_refused(plan, failed) and failed.summary == {}


def test_an_author_who_may_no_longer_apply_the_plan_is_refused(plan, cast, settings):
    jobs = [request(plan)]
    User.objects.filter(username="ada").update(role=Role.AUDITOR)
    assert "is not an active administrator" in is_refused(plan, jobs[0])
    User.objects.filter(username="ada").update(role=Role.ADMINISTRATOR)
    own = create_plan_from_changes(
        author=author_named("ada"), grant=[("user:out", "dataset:sales.orders", "ADMIN")]
    )
    job = request(own)
    settings.FOUR_EYES = True
    assert "another person must apply" in is_refused(own, job)


def test_four_eyes_count_what_the_patterns_of_a_plan_match(cast, settings):
    settings.FOUR_EYES, settings.FOUR_EYES_MAX_ITEMS, settings.PROTECTED_NAMESPACES = True, 3, ["hr"]
    ada = author_named("ada")

    def fault(pattern):
        plan = create_plan_from_changes(author=ada, grant=[("user:out", pattern, "READ")])
        return application_fault(ada, plan)

    assert "has more than 3 items" in fault(PATTERN)
    for pattern in ("dataset:*.nothing", "namespace:h?", "dataset:hr.nothing*"):
        assert "protected namespace hr" in fault(pattern), pattern
    assert fault("dataset:sales.o*") == ""


def test_a_job_that_waits_is_cancelled_by_administrators_only(plan, cast):
    job = request(plan)
    with pytest.raises(NotAdministrator):
        cancel_application(plan, author=author_named("aud"))
    assert cancel_application(plan, author=author_named("ada"))
    before = database_state()
    assert execute(job).state == JobState.CANCELLED
    assert database_state() == before
    assert not cancel_application(plan, author=author_named("ada"))
    assert JournalLine.objects.filter(action="run-cancel", detail__contains=f"run {job.pk}").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_job_in_the_middle_shows_its_progress_and_is_cancelled(cast, settings, monkeypatch):
    settings.APPLY_MAX_CHANGES = 10
    monkeypatch.setattr("grants.plan_items.ITEMS_PER_BATCH", 1)
    monkeypatch.setattr("grants.jobs.execution.POLL_SECONDS", 0.02)
    plan = create_plan_from_changes(
        grant=[("user:out", f"dataset:sales.new_{number}", "READ") for number in range(400)]
    )
    before, job, seen = database_state(), request(plan), []

    def cancel():
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not seen:
                row = Job.objects.get(pk=job.pk)
                seen.extend([(row.steps_done, row.steps_total)] if row.steps_done else [])
            seen.append(cancel_application(plan, author=author_named("ada")))
        finally:
            connection.close()

    thread = threading.Thread(target=cancel)
    thread.start()
    execute(job)
    thread.join()
    (done, total), is_cancelled = seen
    assert is_cancelled and 0 < done < total == 400
    assert job.state == JobState.CANCELLED
    assert Plan.objects.get(pk=plan.pk).is_proposed
    assert not UserGrant.objects.filter(user__username="out").exists()
    # the lines that say that the job was requested and cancelled
    assert database_state() == (before[0] + 2, *before[1:])


def test_what_follows_from_a_pattern_is_written_in_steps(cast, monkeypatch):
    monkeypatch.setattr("grants.derived._ROWS_PER_STEP", 2)
    steps = []
    with progress_to(steps.append):
        for privilege in ("READ", "WRITE"):
            add_grant("user:out", "dataset:*", privilege)
    assert UserGrant.held.filter(user__username="out", content_object__kind="dataset").count() > 10
    assert len(steps) > 4 and first_derived_fault() == ""
    revoke_grant("user:out", "dataset:*", "READ")
    assert first_derived_fault() == ""
