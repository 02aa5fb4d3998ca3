"""The effect of changes with periods is evaluated now and at the beginning of each period."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from entities.address import parse_address
from entities.vocabulary import ANY, READ, WRITE
from grants.change_set import Grant, Join, Leave, Revoke, UnknownChange, as_text, change_from_text
from grants.changes import ChangeSet, Shown, preview
from grants.effects.changes import MAX_TIMES
from grants.effects.effect import effect_of
from grants.errors import EffectUnconfirmed
from grants.journal import Author
from grants.models import Plan
from grants.policies.catalogue import GENERATIONS
from grants.validity import Validity
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_grant, apply_plan, create_plan_from_changes
from tests.support.random_tenants import (
    changed_tenant,
    permitted_decisions,
    random_timed_tenant,
    store_tenant,
)

pytestmark = pytest.mark.django_db

FINAL = GENERATIONS["final"]
ORDERS = parse_address("dataset:sales.orders")
BEGINNINGS = [datetime(2126, month, 1, tzinfo=UTC) for month in range(1, 7)]


def read_from(beginning, user="out", address=ORDERS, privilege=READ, until=None):
    return Grant(f"user:{user}", address, privilege, validity=Validity(beginning, until))


@pytest.mark.parametrize("seed", range(4))
def test_the_effect_at_each_time_is_the_difference_of_all_decisions_at_that_time(seed):
    timed, dice = random_timed_tenant(seed + 40, has_roles=True), random.Random(seed)
    tenant = timed.tenant
    store_tenant(tenant, timed.periods)
    generation = GENERATIONS[dice.choice(list(GENERATIONS))]
    periods = [
        Validity(),
        *(
            Validity(beginning, dice.choice([None, beginning + timedelta(days=40)]))
            for beginning in BEGINNINGS[:3]
        ),
    ]
    changes = {}
    for number in range(12):
        change = Grant(
            f"user:{dice.choice(list(tenant.users))}",
            dice.choice(list(tenant.entities)),
            dice.choice(ANY),
            validity=periods[number % 4],
        )
        changes[change.principal, change.address, change.privilege] = change
    change = Join(dice.choice(list(tenant.users)), dice.choice(list(tenant.groups)), validity=periods[2])
    changes = [*changes.values(), change]
    effect = effect_of(changes, generation)
    times = [one.at for one in effect.times]
    assert times[1:] == BEGINNINGS[:3]
    for one in effect.times:
        before = timed.at(one.at)
        # an addition that is not in force replaces the period before, and makes its user a principal
        replaced = [
            Leave(change.user, change.group)
            if isinstance(change, Join)
            else Revoke(change.principal, change.address, change.privilege)
            for change in changes
            if not change.validity.includes(one.at)
        ]
        permitted, after = (
            permitted_decisions(each, generation.name)
            for each in (before, changed_tenant(before, [*changes, *replaced]))
        )
        changed = {(row.user, row.entity, row.operation): row.after for row in one.rows()}
        expected = {
            (user, str(address), operation): is_gain
            for rows, is_gain in ((after - permitted, True), (permitted - after, False))
            for user, address, operation in rows
        }
        assert changed == expected


def test_the_later_beginnings_are_counted():
    create_sample_tenant()
    changes = [
        Grant("user:dee", ORDERS, WRITE),
        *(
            read_from(beginning, address=parse_address(address))
            for beginning, address in zip(
                BEGINNINGS,
                (
                    "dataset:sales.orders",
                    "dataset:sales.customers",
                    "dataset:hr.salaries",
                    "application:sales.shop",
                    "artifact:sales.etl-1.0",
                    "namespace:hr",
                ),
                strict=True,
            )
        ),
    ]
    effect = effect_of(changes, FINAL)
    assert len(effect.times) == MAX_TIMES and effect.times[0] is effect
    assert (effect.other_beginnings, effect.last_beginning) == (3, BEGINNINGS[5])
    assert [one.people_count for one in effect.times] == [1, 2, 2, 2]
    assert effect_of(changes, FINAL, at=BEGINNINGS[5]).tally.total > effect.times[3].tally.total
    assert effect_of(changes[:1], FINAL).times == ()


def test_without_an_effect_at_present_the_first_beginning_with_one_counts():
    create_sample_tenant()
    effect = effect_of([read_from(BEGINNINGS[0], user="ina"), read_from(BEGINNINGS[1])], FINAL)
    assert (
        effect.at == BEGINNINGS[1]
        and effect.tally.total
        and [one.has_effect for one in effect.times] == [False, False, True]
    )


def test_a_later_effect_changes_the_digest_and_must_be_confirmed():
    create_sample_tenant()
    changes = [Grant("user:dee", ORDERS, WRITE), read_from(BEGINNINGS[0])]
    shown = preview(ChangeSet.of(*changes))
    assert not shown.effect.tally.gained_beyond and shown.effect.max_gained_beyond and not shown.is_obvious
    plan = create_plan_from_changes(
        grant=[(change.principal, change.address, change.privilege, change.validity) for change in changes]
    )
    author = Author("the tests", reason="because")
    with pytest.raises(EffectUnconfirmed, match="permissions as side effects"):
        apply_plan(plan, author=author, shown=Shown())
    # the change of the later effect alone
    add_grant("user:out", "dataset:sales.customers", "READ")
    assert (
        preview(ChangeSet.of(*changes)).effect.tally == shown.effect.tally
        and preview(ChangeSet.of(*changes)).digest != shown.digest
    )
    assert Plan.objects.get(pk=plan.pk).is_proposed


@pytest.mark.parametrize(
    "change",
    [
        read_from(BEGINNINGS[0]),
        read_from(None, until=BEGINNINGS[1]),
        Join("out", "operators", Validity(BEGINNINGS[0])),
        Grant("user:out", ORDERS, READ),
    ],
)
def test_a_text_of_a_change_has_its_period(change):
    assert change_from_text(as_text(change)) == change


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '["delete"]', '["delete", "nonsense"]', "[" * 2_000, "9" * 2_000, "\ud800"]
)
def test_a_text_that_describes_no_change_is_refused(text):
    with pytest.raises(UnknownChange):
        change_from_text(text)
