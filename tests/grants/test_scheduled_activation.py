"""An activation at a later time makes the change that was shown, or refuses it and says why."""

from datetime import timedelta

import pytest
from django.utils import timezone

from authzconsole.findings.sources import Situation, _failed_jobs
from grants.active_generation import active_generation, propose_generation
from grants.changes import Shown, apply, preview, request_change_effect
from grants.errors import (
    EffectChanged,
    GrantError,
    NotAdministrator,
    ReasonMissing,
    SecondPersonRequired,
    StalePlan,
)
from grants.jobs import run_job
from grants.jobs.sweep import resend_waiting_jobs
from grants.models import Job, JobState, JournalLine, Role, User, UserGrant
from grants.plans.staleness import invalidating_line
from grants.policies.catalogue import GENERATIONS
from grants.scheduled_activation import (
    MAX_DAYS_AHEAD,
    activation_changes,
    cancel_activation,
    schedule_activation,
    scheduled_activation,
)
from tests.support.authors import account, author_named
from tests.support.changes import (
    activate_generation,
    add_grant,
    add_group,
    apply_plan,
    create_inverse,
    create_plan_from_changes,
    discard_plan,
    set_user_active,
)

pytestmark = pytest.mark.usefixtures("cast")
CORE = GENERATIONS["core"]
HOUR = timedelta(hours=1)


def shown(plan: int | None = None) -> Shown:
    changes = activation_changes(CORE, plan)
    return Shown(preview(changes).digest, changes.identity, is_required=True)


def schedule(name: str = "ada", *, at=None, **options):
    return schedule_activation(
        author=author_named(name, reason="new rules"),
        generation=CORE,
        at=at or timezone.now() + HOUR,
        **{"shown": shown()} | options,
    )


def run() -> Job:
    """Execute the scheduled activation as a worker does when it is due. Return its job."""
    job = Job.objects.get(type="generation-activation", state=JobState.WAITING)
    run_job(job.pk)
    job.refresh_from_db()
    return job


def lines() -> list[tuple[str, str]]:
    rows = JournalLine.objects.filter(action__startswith="generation-").order_by("revision")
    return [(line.action, line.actor) for line in rows]


def test_the_job_activates_as_its_author_and_only_when_it_is_due(monkeypatch):
    assert schedule().has_changed
    scheduled = scheduled_activation()
    assert (scheduled.generation, scheduled.by, scheduled.refusal) == ("core", "ada", "")
    sent = []
    monkeypatch.setattr("grants.jobs.sweep.send_job", lambda job: sent.append(job.pk) or True)
    resend_waiting_jobs()
    assert sent == [] and active_generation().name == "final"
    Job.objects.update(due_at=timezone.now() - HOUR)
    resend_waiting_jobs()
    assert sent == [scheduled.job.pk]
    assert run().state == JobState.DONE and active_generation() == CORE
    assert lines() == [("generation-schedule", "ada"), ("generation-activate", "ada")]
    assert JournalLine.objects.latest("revision").reason == "new rules"
    assert scheduled_activation() is None


def test_another_effect_than_the_one_shown_is_refused_and_reported():
    schedule()
    # one more user can read the dataset, and the other rules change the permissions of this user
    add_grant("user:out", "dataset:hr.salaries", "READ")
    job = run()
    assert job.state == JobState.FAILED and "not the one that was shown" in job.error
    assert active_generation().name == "final"
    assert lines() == [("generation-schedule", "ada"), ("generation-schedule-refuse", "schedule_run")]
    assert "not the one that was shown" in JournalLine.objects.latest("revision").detail
    assert "not the one that was shown" in scheduled_activation().refusal
    assert schedule().has_changed, "a refused activation can be scheduled again"


def test_a_plan_is_applied_in_the_transaction_of_the_activation():
    plan = create_plan_from_changes(grant=[("user:out", "dataset:hr.salaries", "READ")])
    schedule(plan=plan.pk, shown=shown(plan.pk))
    assert scheduled_activation().plan == plan.pk
    detail = JournalLine.objects.get(action="generation-schedule").detail
    assert detail.startswith(f"from final to core with plan {plan.pk} at ")
    assert run().state == JobState.DONE and active_generation() == CORE
    plan.refresh_from_db()
    assert (plan.state, plan.decided_by, plan.reason) == ("applied", "ada", "new rules")
    assert plan.effect["grants"] == 1 and plan.revision == JournalLine.objects.latest("revision").revision
    assert UserGrant.objects.filter(user__username="out").exists()
    create_inverse(plan)


@pytest.mark.parametrize("step", ["applied", "discarded"])
def test_a_plan_that_cannot_be_applied_keeps_the_generation_from_becoming_active(step):
    plan = create_plan_from_changes(grant=[("user:out", "dataset:hr.salaries", "READ")])
    schedule(plan=plan.pk, shown=shown(plan.pk))
    if step == "applied":
        apply_plan(plan)
    else:
        discard_plan(plan)
    job = run()
    assert job.state == JobState.FAILED and active_generation().name == "final"
    assert f"already {step}" in job.error
    plan.refresh_from_db()
    assert plan.state == step


@pytest.mark.parametrize("has_effect", [False, True])
def test_a_stale_plan_is_applied_with_the_activation_only_if_the_effect_is_the_one_that_was_shown(has_effect):
    plan = create_plan_from_changes(grant=[("user:out", "dataset:hr.salaries", "READ")])
    schedule(plan=plan.pk, shown=shown(plan.pk))
    # a group without members changes no decision
    add_group("empty")
    add_grant("user:out" if has_effect else "group:empty", "dataset:hr.salaries", "READ")
    assert invalidating_line(plan) is not None
    job = run()
    plan.refresh_from_db()
    if has_effect:
        assert "not the one that was shown" in job.error
        assert (plan.state, active_generation().name) == ("proposed", "final")
    else:
        assert (plan.state, active_generation().name) == ("applied", "core")
        assert UserGrant.objects.filter(user__username="out").exists()


def test_a_stale_plan_is_refused_with_an_activation_whose_effect_was_not_shown():
    plan = create_plan_from_changes(grant=[("user:out", "dataset:hr.salaries", "READ")])
    add_group("empty")
    add_grant("group:empty", "dataset:hr.salaries", "READ")
    with pytest.raises(StalePlan):
        apply(activation_changes(CORE, plan.pk), author=author_named("ada", reason="new rules"))
    assert active_generation().name == "final"


def test_the_effect_is_compared_with_that_of_the_activation_and_the_plan_together():
    plan = create_plan_from_changes(grant=[("user:out", "dataset:hr.salaries", "READ")])
    assert shown(plan.pk).digest != shown().digest
    for accepted in (shown(), shown(plan.pk)):
        changed = Shown(accepted.digest, activation_changes(CORE, plan.pk).identity, is_required=True)
        if accepted == shown(plan.pk):
            assert schedule(plan=plan.pk, shown=changed).has_changed
        else:
            with pytest.raises(EffectChanged):
                schedule(plan=plan.pk, shown=changed)


def test_a_plan_needs_a_reason_and_the_right_to_change_grants():
    plan = create_plan_from_changes(grant=[("user:out", "dataset:hr.salaries", "READ")])
    changes = activation_changes(CORE, plan.pk)
    with pytest.raises(ReasonMissing):
        apply(changes, author=author_named("ada", reason=""))
    with pytest.raises(NotAdministrator):
        apply(changes, author=author_named("aud", reason="new rules"))
    assert active_generation().name == "final"


def test_with_four_eyes_the_maker_of_a_plan_does_not_apply_it_with_an_activation(settings):
    settings.FOUR_EYES = True
    plan = create_plan_from_changes(
        author=author_named("ada", reason="x"), grant=[("user:out", "dataset:hr.salaries", "ADMIN")]
    )
    User.objects.filter(username="ned").update(role=Role.ADMINISTRATOR)
    propose_generation(author=author_named("ned"), name="core")
    with pytest.raises(SecondPersonRequired, match=f"must apply plan {plan.pk}"):
        schedule(plan=plan.pk, shown=shown(plan.pk))


def test_a_refusal_is_a_finding():
    schedule()
    add_grant("user:out", "dataset:hr.salaries", "READ")
    run()
    found = list(_failed_jobs(Situation.now(generation=active_generation(), is_large=False)))
    assert [row.subject for row in found if "generation-activation" in row.subject]


@pytest.mark.parametrize("change", ["deactivated", "demoted"])
def test_an_author_who_may_not_activate_any_more_activates_nothing(change):
    User.objects.filter(username="ned").update(role=Role.ADMINISTRATOR)
    schedule()
    if change == "deactivated":
        set_user_active("ada", active=False)
    else:
        User.objects.filter(username="ada").update(role=Role.AUDITOR)
    job = run()
    assert job.state == JobState.FAILED and "administrator" in job.error
    assert active_generation().name == "final"


def test_rules_that_changed_and_another_active_generation_are_refused():
    schedule()
    Job.objects.update(options=Job.objects.get().options | {"rules": "0" * 64})
    assert "rules of `core` have changed" in run().error
    schedule()
    activate_generation("existing")
    assert "`existing` was activated in the meantime" in run().error
    assert active_generation().name == "existing"


def test_a_second_attempt_after_a_lost_worker_changes_nothing():
    schedule()
    activate_generation("core")
    before = len(lines())
    assert run().state == JobState.DONE and len(lines()) == before


def test_a_cancelled_activation_never_happens():
    schedule()
    job = Job.objects.get()
    with pytest.raises(NotAdministrator):
        cancel_activation(author=author_named("aud"))
    assert cancel_activation(author=author_named("ada")).has_changed
    assert not cancel_activation(author=author_named("ada")).has_changed
    run_job(job.pk)
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED and active_generation().name == "final"
    assert lines() == [("generation-schedule", "ada"), ("generation-schedule-cancel", "ada")]


def test_an_activation_that_runs_is_not_reported_as_cancelled():
    schedule()
    Job.objects.update(state=JobState.RUNNING, claim="x")
    with pytest.raises(GrantError, match="at this moment"):
        cancel_activation(author=author_named("ada"))
    assert Job.objects.get().cancel_requested_at is None
    assert lines() == [("generation-schedule", "ada")]


def test_what_cannot_be_scheduled_is_refused_at_once():
    for at in (timezone.now() - HOUR, timezone.now() + timedelta(days=MAX_DAYS_AHEAD + 1)):
        with pytest.raises(GrantError, match="choose a time"):
            schedule(at=at)
    with pytest.raises(EffectChanged):
        schedule(shown=Shown("0" * 32, shown().identity, is_required=True))
    with pytest.raises(GrantError, match="compute the effect first"):
        schedule(shown=Shown("too-large"))
    for name in ("aud", "ned"):
        with pytest.raises(NotAdministrator):
            schedule(name)
    assert not Job.objects.exists() and not lines()
    schedule()
    with pytest.raises(GrantError, match="scheduled already"):
        schedule()


def test_four_eyes_holds_when_it_is_scheduled_and_when_it_is_due(settings):
    settings.FOUR_EYES = True
    User.objects.filter(username="ned").update(role=Role.ADMINISTRATOR)
    with pytest.raises(SecondPersonRequired):
        schedule()
    propose_generation(author=author_named("ned"), name="core")
    with pytest.raises(SecondPersonRequired):
        schedule("ned")
    with pytest.raises(GrantError, match="open for 7 days"):
        schedule(at=timezone.now() + timedelta(days=8))
    schedule()
    # another proposal replaces the one that was confirmed
    propose_generation(author=author_named("ned"), name="existing")
    job = run()
    assert job.state == JobState.FAILED and active_generation().name == "final"
    propose_generation(author=author_named("ned"), name="core")
    schedule()
    assert run().state == JobState.DONE and active_generation() == CORE


@pytest.mark.parametrize("with_plan", [False, True])
@pytest.mark.parametrize("has_change", [False, True])
def test_a_large_effect_holds_until_the_data_changes(settings, has_change, with_plan):
    plan = (
        create_plan_from_changes(grant=[("user:out", "dataset:sales.orders", "READ")]).pk
        if with_plan
        else None
    )
    settings.EFFECT_MAX_ENTITIES = 0
    changes, author = activation_changes(CORE, plan), author_named("ada")
    with pytest.raises(GrantError, match="compute the effect first"):
        schedule(plan=plan, shown=shown(plan))
    effect = request_change_effect(
        changes=changes, generation="final", author=author, requested_by=account("ada")
    )
    run_job(effect.pk)
    schedule(plan=plan, shown=shown(plan))
    if has_change:
        add_grant("user:out", "dataset:hr.salaries", "READ")
    job = run()
    assert job.state == (JobState.FAILED if has_change else JobState.DONE)
    assert active_generation().name == ("final" if has_change else "core")
