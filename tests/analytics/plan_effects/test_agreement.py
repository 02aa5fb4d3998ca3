"""Runs compute the same effects of plans, namespace by namespace, as pages do at once, on random tenants."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from analytics.models import AnalysisRun
from analytics.plan_effects.compute import MAX_TOP, compute_effect
from analytics.plan_effects.sources import PlanSource
from analytics.plan_effects.stored import StoredEffect
from analytics.results.read import result_page
from entities.address import parse_address
from entities.models import State
from entities.vocabulary import ANY, KINDS, Privilege
from grants.change_set import Activate, ChangeSet, Deactivate, Grant, Join, Leave, Revoke
from grants.effects import evaluate
from grants.effects.changes import MAX_TIMES
from grants.effects.effect import RowFilter
from grants.jobs import run_job
from grants.models import JobState, Plan
from grants.plans.create import PlanOrigin
from grants.plans.permission_effect import plan_effect
from grants.plans.sources.changes import create_plan_from_changes
from grants.policies.catalogue import GENERATIONS
from grants.validity import Validity
from tests.grants.effects.test_evaluate import random_changes
from tests.support.authors import COMMAND
from tests.support.cast import SETUP, create_sample_tenant
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = pytest.mark.django_db(transaction=True)

ALL_ROWS = 100_000
ORDERS, SALES = parse_address("dataset:sales.orders"), parse_address("namespace:sales")
# (number of the tenant, generation, purpose); see `random_changes` for the types of the changes of a number
CASES = [
    (23, "existing", "changes"),
    (24, "proposed", "changes"),
    (21, "core", "keep"),
    (35, "proposed", "keep"),
    (29, "final", "question"),
    (23, "final", "request"),
    (41, "final", "readiness"),
    (35, "existing", "changes"),
]
# the case with one entity in a batch, as for very many users; those with periods
LARGE = CASES[-1]
TIMED = [CASES[0], CASES[5]]


class NoProgress:
    """A `Progress` that does nothing."""

    def begin_stage(self, stage):
        pass

    def check(self):
        pass

    def show_progress(self, done, total):
        pass


@pytest.fixture(autouse=True)
def storage(settings, tmp_path):
    settings.SNAPSHOT_URI = str(tmp_path)


def plan_of(changes):
    """Store a plan with the changes of grants, memberships and activations."""
    verbs = Grant | Revoke | Join | Leave | Activate | Deactivate
    change_set = ChangeSet.of(*(change for change in changes if isinstance(change, verbs)))
    return create_plan_from_changes(author=COMMAND, change_set=change_set)


def with_periods(changes, dice):
    """Let additions begin at one of five times, so that the effect at most of these times differs from the
    current one.
    """
    start = timezone.now().replace(microsecond=0)
    beginnings = [None, *(start + timedelta(hours=hours) for hours in (12, 36, 100, 200, 300))]
    result = []
    for number, change in enumerate(dice.sample(changes, len(changes))):
        if isinstance(change, Grant | Join):
            beginning = beginnings[number % len(beginnings)]
            end = (beginning or start) + timedelta(hours=90) if dice.random() < 0.3 else None
            change = replace(change, validity=Validity(beginning, end))
        result.append(change)
    return result


def set_purpose(plan, purpose, dice, tenant):
    """Give the plan the origin and the recipe of a plan with this purpose."""
    user = dice.choice(sorted(tenant.users))
    live = sorted((address for address, state in tenant.entities.items() if state == State.LIVE), key=str)
    wanted = [address for address in dice.sample(live, min(len(live), 12)) if KINDS[address.kind].operations]
    operations = [(dice.choice(KINDS[address.kind].operations), str(address)) for address in wanted]
    recipes = {
        "keep": (PlanOrigin.POLICY_IMPACT, {"generation": dice.choice(list(GENERATIONS))}),
        "question": (
            PlanOrigin.CHANGE_SET,
            {"subject": f"user:{user}", **dict(zip(("operation", "entity"), operations[0], strict=True))},
        ),
        "request": (
            PlanOrigin.REQUEST,
            {"subject": user, "wanted": [*operations, (str(dice.choice(ANY)), str(wanted[-1]))]},
        ),
        "readiness": (PlanOrigin.READINESS, {"user": user, "namespace": "namespace:ns0"}),
    }
    if purpose in recipes:
        plan.origin, plan.recipe = recipes[purpose]
        plan.save()


def computed_effect(plan, generation, max_rows=ALL_ROWS):
    """Return the effect that a run computes, without the worker."""
    folder = f"effect-{plan.pk}-{generation}"
    report = compute_effect(
        PlanSource(plan.pk, generation), folder=folder, max_rows=max_rows, progress=NoProgress()
    )
    return StoredEffect(
        AnalysisRun.objects.create(
            type="plan-effect",
            state=JobState.DONE,
            revision=report.revision,
            summary=report.summary,
            result_path=folder,
            options={"plan": str(plan.pk), "generation": generation},
        )
    )


@pytest.mark.parametrize("case", CASES)
def test_a_run_computes_the_effect_that_is_computed_at_once(monkeypatch, case):
    number, generation, purpose = case
    if case == LARGE:
        monkeypatch.setattr(evaluate, "MAX_PAIRS_PER_BATCH", 1)
    tenant, dice = random_tenant(number + 20), random.Random(number)
    store_tenant(tenant)
    changes = random_changes(dice, tenant, number)
    plan = plan_of(with_periods(changes, dice) if case in TIMED else changes)
    set_purpose(plan, purpose, dice, tenant)
    expected, effect = plan_effect(plan, generation), computed_effect(plan, generation)
    assert expected.has_effect and len(expected.times) == (MAX_TIMES if case in TIMED else 0)
    assert (effect.other_beginnings, effect.last_beginning) == (
        expected.other_beginnings,
        expected.last_beginning,
    )
    assert effect.max_gained_beyond == expected.max_gained_beyond and [
        one.at for one in effect.times[1:]
    ] == [one.at for one in expected.times[1:]]
    for one, expected_one in zip([effect, *effect.times], [expected, *expected.times], strict=True):
        check_agreement(one, expected_one)


def check_agreement(effect, expected):
    """Compare the members and the rows of the effect at one time."""
    assert (effect.tally, effect.people, effect.people_count) == (
        expected.tally,
        expected.people[:MAX_TOP],
        expected.people_count,
    )
    assert effect.operations == expected.operations
    assert (effect.entities, effect.entity_count) == (expected.entities[:MAX_TOP], expected.entity_count)
    rows = sorted(expected.rows())
    assert list(effect.rows()) == rows and effect.row_count() == len(rows)
    assert list(effect.rows(first_row=2)) == rows[2:1002]
    where = RowFilter(change="gained", purpose="beyond", user="a")
    assert list(effect.rows(where)) == sorted(expected.rows(where)) and effect.row_count(
        where
    ) == expected.row_count(where)


def test_more_rows_than_the_console_keeps_are_counted_but_not_written():
    create_sample_tenant()
    plan = create_plan_from_changes(
        author=SETUP, change_set=ChangeSet.of(Grant("user:out", SALES, Privilege.ADMIN))
    )
    effect = computed_effect(plan, "existing", max_rows=3)
    assert (
        effect.tally == plan_effect(plan, "existing").tally
        and not effect.has_rows
        and effect.row_count() == 0
    )
    with pytest.raises(Exception, match="the rows are not listed"):
        result_page(effect.run)


def test_the_worker_executes_the_run_and_signs_its_report(settings):
    settings.EFFECT_MAX_GRANTS = -1
    create_sample_tenant()
    plan = create_plan_from_changes(
        author=SETUP, change_set=ChangeSet.of(Grant("user:out", ORDERS, Privilege.READ))
    )
    run = AnalysisRun.objects.create(
        type="plan-effect", options={"plan": str(plan.pk), "generation": "final"}
    )
    run_job(run.pk)
    run.refresh_from_db()
    assert run.state == JobState.DONE, run.error
    assert run.result_hash and len(list(StoredEffect(run).rows())) == run.summary["detail_rows"] > 4
    Plan.objects.update(state="discarded")
    other = AnalysisRun.objects.create(
        type="plan-effect", options={"plan": str(plan.pk), "generation": "core"}
    )
    run_job(other.pk)
    other.refresh_from_db()
    assert other.state == JobState.FAILED and "was applied or discarded" in other.error
