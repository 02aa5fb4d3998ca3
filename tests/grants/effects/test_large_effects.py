"""Jobs compute the same effects, namespace by namespace, as pages do at once, on random tenants."""

import random
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from entities.address import parse_address
from entities.models import State
from entities.vocabulary import ANY, KINDS, Privilege
from grants.change_set import (
    Activate,
    ActivateGeneration,
    ChangeSet,
    Deactivate,
    Delete,
    Grant,
    Join,
    Leave,
    Register,
    RemovePrincipal,
    Revoke,
)
from grants.changes import preview
from grants.effects import evaluate, large
from grants.effects.changes import MAX_TIMES
from grants.effects.effect import RowFilter, Tally
from grants.effects.large import MAX_TOP, large_effect
from grants.jobs import run_job
from grants.models import EffectRows, Job, JobState, Plan
from grants.plans.create import PlanOrigin
from grants.plans.permission_effect import plan_effect, request_plan_effect
from grants.plans.sources.changes import change_set_plan
from grants.policies.catalogue import GENERATIONS
from grants.policies.levels import level_of
from grants.policies.principals import group_text
from grants.validity import Validity
from tests.grants.effects.test_evaluate import random_changes
from tests.support.authors import COMMAND
from tests.support.cast import SETUP, create_sample_tenant
from tests.support.jobs import execute_effect
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = pytest.mark.django_db(transaction=True)

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


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(large, "ROWS_PER_BLOCK", 7)


def plan_of(changes):
    """Store a plan with the changes of grants, memberships and activations."""
    verbs = Grant | Revoke | Join | Leave | Activate | Deactivate
    change_set = ChangeSet.of(*(change for change in changes if isinstance(change, verbs)))
    return change_set_plan.create(COMMAND, change_set)


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


def computed_effect(plan, generation):
    """Return the effect that a job computes."""
    return execute_effect(
        request_plan_effect(plan=plan, generation=generation, author=COMMAND, requested_by=None)
    )


@pytest.mark.parametrize("case", CASES)
def test_a_job_computes_the_effect_that_is_computed_at_once(monkeypatch, sent_tasks, case):
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
    assert list(effect.levels.items()) == list(expected.levels.items())
    assert effect.figures.grantless == expected.figures.grantless
    assert effect.figures.levels_by_person == expected.figures.levels_by_person
    check_levels(expected)
    assert (effect.entities, effect.entity_count) == (expected.entities[:MAX_TOP], expected.entity_count)
    rows = sorted(expected.rows())
    assert list(effect.rows()) == rows and effect.row_count() == len(rows)
    assert list(effect.rows(first_row=2)) == rows[2:] and list(effect.rows(first_row=15)) == rows[15:]
    where = RowFilter(change="gained", purpose="beyond", user="a")
    assert list(effect.rows(where)) == sorted(expected.rows(where)) and effect.row_count(
        where
    ) == expected.row_count(where)


def check_levels(effect):
    """Compare the counts by access level with those of the rows of the effect."""
    generation = GENERATIONS[effect.generation]
    changes = defaultdict(set)
    needing_none = {(str(cell.address), cell.operation) for cell in effect.cells if cell.needs_no_grant}
    rows = [row for row in effect.rows() if (row.entity, row.operation) not in needing_none]
    assert effect.figures.grantless == effect.row_count() - len(rows)
    for row in rows:
        level = level_of(generation, parse_address(row.entity).kind, row.operation)
        changes[row.user, row.entity, level, row.after].add(row.intended)
    totals, people = defaultdict(Counter), defaultdict(lambda: defaultdict(Counter))
    namespaces = defaultdict(lambda: defaultdict(Counter))
    for (user, entity, level, is_gain), intended in changes.items():
        # an intended change at a level is not also a side effect
        name = f"{'gained' if is_gain else 'lost'}_{'for' if True in intended else 'beyond'}"
        totals[level][name] += 1
        people[user][level][name] += 1
        address = parse_address(entity)
        namespace = address.namespace.key if address.namespace else ""
        namespaces[user][name][level, address.kind, namespace] += 1
    assert {level: tally for level, tally in effect.levels.items() if tally.total} == {
        level: Tally(**counts) for level, counts in totals.items()
    }
    assert effect.figures.levels_by_person == {
        user: {level: Tally(**counts) for level, counts in levels.items()} for user, levels in people.items()
    }
    found = effect.level_changes(sorted(namespaces))
    assert {
        user: {
            name: {(count.level, count.kind, count.namespace): count.count for count in counts}
            for name, counts in of_user._asdict().items()
            if counts
        }
        for user, of_user in found.items()
    } == namespaces


def test_more_rows_than_the_console_keeps_are_counted_but_not_stored(settings, sent_tasks):
    settings.RUN_DETAIL_ROWS_MOST = 3
    create_sample_tenant()
    plan = change_set_plan.create(SETUP, ChangeSet.of(Grant("user:out", SALES, Privilege.ADMIN)))
    effect = computed_effect(plan, "existing")
    assert effect.tally == plan_effect(plan, "existing").tally
    assert not effect.has_rows and effect.row_count() == 0 and not EffectRows.objects.exists()


def test_the_worker_executes_the_job(settings, sent_tasks):
    settings.EFFECT_MAX_GRANTS = -1
    create_sample_tenant()
    plan = change_set_plan.create(SETUP, ChangeSet.of(Grant("user:out", ORDERS, Privilege.READ)))
    jobs = [
        request_plan_effect(plan=plan, generation=name, author=COMMAND, requested_by=None)
        for name in ("final", "core")
    ]
    run_job(jobs[0].pk)
    jobs[0].refresh_from_db()
    assert jobs[0].state == JobState.DONE, jobs[0].error
    assert len(list(large_effect(jobs[0]).rows())) == jobs[0].summary["detail_rows"] > 4
    Plan.objects.update(state="discarded")
    run_job(jobs[1].pk)
    jobs[1].refresh_from_db()
    assert jobs[1].state == JobState.FAILED and "was applied or discarded" in jobs[1].error


def some_changes(tenant, *, has_known_changes):
    """Return the deletion of a container and further changes. has_known_changes: whether users become active
    or inactive.
    """
    live = sorted((address for address, state in tenant.entities.items() if state == State.LIVE), key=str)
    namespace = next(address for address in live if address.kind == "namespace")
    active, groups = (
        sorted(user for user, status in tenant.users.items() if status == (True, True)),
        sorted(tenant.groups),
    )
    if not has_known_changes:
        return [Delete(namespace), RemovePrincipal(group_text(groups[0]))]
    application = next(
        address for address in live if address.kind == "application" and address.namespace != namespace
    )
    deleted = next(
        address
        for address, state in sorted(tenant.entities.items(), key=str)
        if address.kind in ("dataset", "stream") and state == State.DELETED and address.namespace != namespace
    )
    others = sorted(tenant.users.keys() - {active[1]})
    return [
        Delete(application),
        Register(deleted, f"user:{active[0]}"),
        Join(active[0], groups[-1]),
        Register(parse_address(f"dataset:{application.namespace.key}.quite-new")),
        RemovePrincipal(f"user:{active[1]}"),
        *(Activate(user) for user in others),
    ]


@pytest.mark.parametrize(
    ("number", "active", "generation"),
    [(17, "existing", "final"), (44, "existing", "final"), (22, "core", "core")],
)
def test_a_job_computes_the_effect_of_changes_that_is_computed_at_once(
    settings, monkeypatch, sent_tasks, number, active, generation
):
    settings.DEFAULT_GENERATION = active
    if number == 17:
        # one entity in a batch, as for very many users
        monkeypatch.setattr(evaluate, "MAX_PAIRS_PER_BATCH", 1)
    tenant = random_tenant(number)
    store_tenant(tenant)
    changes = (
        [ActivateGeneration(GENERATIONS["existing"])]
        if active == "core"
        else some_changes(tenant, has_known_changes=number != 17)
    )
    change_set = ChangeSet.of(*changes)
    expected = preview(change_set, GENERATIONS[generation])
    options = {"changes": "\n".join(change_set.texts), "generation": generation, "active": active}
    effect = execute_effect(Job.objects.create(type="change-effect", options=options))
    assert expected.effect.has_effect
    check_agreement(effect, expected.effect)
    strandings = expected.strandings
    assert effect.strandings == strandings._replace(entities=list(strandings.entities[:MAX_TOP]))
