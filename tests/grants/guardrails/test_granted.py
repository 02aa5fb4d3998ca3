"""The violations that grants add equal the difference of all violations, on random tenants."""

import itertools
import random
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.change_set import Grant
from grants.guardrails import check
from grants.guardrails.evaluation import EVERYTHING, forbidden_statement, violations_in
from grants.models import Form
from grants.policies.principals import group_text
from grants.validity import Validity
from tests.grants.guardrails.test_evaluation import random_rules
from tests.support.changes import add_grant, add_member, change_grants
from tests.support.guardrails import add_guardrail
from tests.support.random_tenants import random_tenant, seeds, store_tenant

pytestmark = pytest.mark.django_db


def all_lasting():
    statements = (
        forbidden_statement(form, EVERYTHING, is_lasting=True) for form in (Form.FORBID, Form.FORBID_BOTH)
    )
    return {
        row.key
        for statement in statements
        if statement is not None
        for row in violations_in(statement, EVERYTHING)
    }


@pytest.mark.parametrize("seed", seeds(range(8)))
def test_the_added_violations_equal_the_difference_of_all(seed, monkeypatch):
    monkeypatch.setattr(check, "MAX_LISTED", 10_000)
    dice = random.Random(seed)
    tenant = random_tenant(seed, has_roles=True)
    store_tenant(tenant)
    for name, members in random_rules(tenant, dice).items():
        if "forbid" in members or "forbid_both" in members:
            add_guardrail(name, members | {"level": "warn"})
    users, places, now = sorted(tenant.users)[:4], sorted(map(str, tenant.entities)), timezone.now()
    namespaces = [place for place in places if place.startswith("namespace:")]
    for number, (first, second) in enumerate(itertools.product([*namespaces, "instance:cdap"], namespaces)):
        names = dice.sample([str(privilege) for privilege in Privilege], 2)
        both = [
            {"privilege": name, "within": place} for name, place in zip(names, (first, second), strict=True)
        ]
        add_guardrail(f"wide-{number}", {"forbid_both": both, "level": "warn"})
    principals = [*(f"user:{name}" for name in users), *map(group_text, sorted(tenant.groups))]
    # from it follow derived grants on registered datasets
    add_grant(dice.choice(principals), f"dataset:{dice.choice(namespaces).partition(':')[2]}.*", "WRITE")
    later, end = now + timedelta(days=2), now + timedelta(days=4)
    for user, group in itertools.product(users, sorted(tenant.groups)):
        if dice.random() < 0.4:
            add_member(
                user, group, dice.choice([Validity(later, None), Validity(None, later), Validity(later, end)])
            )
    found = set()
    for _ in range(25):
        principal = dice.choice(principals)
        items = {
            (
                dice.choice([principal, principal, *principals]),
                dice.choice([*places, "dataset:new.one"]),
                dice.choice([*Privilege]),
            )
            for _ in range(dice.choice([1, 1, 3]))
        }
        period = dice.choice(
            [
                Validity(),
                Validity(),
                Validity(now + timedelta(days=1), None),
                Validity(None, now + timedelta(hours=1)),
                Validity(now + timedelta(days=3), None),
            ]
        )
        changes = [
            Grant(holder, parse_address(place), privilege, period) for holder, place, privilege in items
        ]
        before = all_lasting()
        _, added = check.make_and_compare(
            changes,
            lambda items=items, period=period: change_grants(
                grant=[(*item, period) for item in sorted(items)]
            ),
        )
        new = all_lasting() - before
        assert {row.violation.key for row in added.rows} == new, changes
        assert added.total == len(new)
        found |= {row.guardrail.form for row in added.rows}
    assert Form.FORBID_BOTH in found


def test_a_grant_does_not_read_the_old_violations(cast):
    for number in range(30):
        place = f"dataset:sales.d{number}"
        add_grant("user:dee", place, "WRITE")
        add_grant("user:dee", place, "ADMIN")
    both = [{"privilege": name, "within": "namespace:sales"} for name in ("WRITE", "ADMIN")]
    add_guardrail("both", {"forbid_both": both, "level": "warn"})
    with CaptureQueriesContext(connection) as queries:
        result = add_grant("user:dee", "dataset:sales.d30", "ADMIN")
    rows = [row["sql"] for row in queries if "first_side" in row["sql"]]
    assert not rows, result


def test_a_grant_inside_both_places_of_a_guardrail_is_counted_once(cast, monkeypatch):
    # no violation is remembered, as with more than are listed
    monkeypatch.setattr(check, "MAX_LISTED", 0)
    both = [{"privilege": "WRITE", "within": place} for place in ("namespace:sales", "instance:cdap")]
    add_guardrail("both", {"forbid_both": both, "level": "warn"})
    add_grant("group:operators", "dataset:sales.orders", "WRITE")
    change = ("group:operators", "dataset:sales.customers", "WRITE")
    _, added = check.make_and_compare(
        [Grant(change[0], parse_address(change[1]), Privilege.WRITE, Validity())],
        lambda: change_grants(grant=[(*change, Validity())]),
    )
    assert added.total == len(all_lasting()) - 1
