"""Plans that replace grants on patterns by narrower ones."""

from datetime import timedelta

import pytest
from django.utils import timezone

from entities.address import parse_grantable
from entities.vocabulary import Privilege
from grants.change_set import Revoke
from grants.errors import PlanError
from grants.models import GroupGrant
from grants.plans.sources.patterns import Narrowing, narrowing_plan
from grants.validity import Validity
from tests.support.authors import COMMAND, all_grants
from tests.support.changes import add_grant, apply_plan, create_inverse, renew_plan

pytestmark = pytest.mark.usefixtures("cast")
ORDERS = "dataset:sales.orders"


def plan_for(*rows):
    """Return the plan for rows of a pattern and what is narrower: grants of READ to the operators."""
    return narrowing_plan.create(
        COMMAND,
        run=7,
        narrowings=[
            Narrowing(
                Revoke("group:operators", parse_grantable(pattern), Privilege.READ),
                tuple(map(parse_grantable, narrower)),
            )
            for pattern, *narrower in rows
        ],
    )


def changes_of(plan):
    return [(row.verb, str(row.address)) for row in plan.items.order_by("position")]


def test_narrower_grants_have_the_period_of_the_grant_that_they_replace():
    end = timezone.now().replace(microsecond=0) + timedelta(days=3)
    add_grant("group:operators", "dataset:sales.*", "READ", Validity(None, end))
    before = all_grants()
    plan = plan_for(("dataset:sales.*", ORDERS, "dataset:sales.o*"))
    assert sorted(changes_of(plan)) == [
        ("grant", "dataset:sales.o*"),
        ("grant", ORDERS),
        ("revoke", "dataset:sales.*"),
    ]
    assert plan.recipe == {"run": 7}
    apply_plan(plan)
    assert set(
        GroupGrant.objects.filter(content_object__key__startswith="sales.o", valid_until=end).grant_keys()
    ) == {("group:operators", parse_grantable(text), Privilege.READ) for text in (ORDERS, "dataset:sales.o*")}
    apply_plan(create_inverse(plan))
    assert all_grants() == before


def test_what_is_held_already_keeps_the_longer_period():
    add_grant(
        "group:operators", "dataset:sales.*", "READ", Validity(None, timezone.now() + timedelta(days=3))
    )
    add_grant("group:operators", ORDERS, "READ")
    assert changes_of(plan_for(("dataset:sales.*", ORDERS))) == [("revoke", "dataset:sales.*")]


def test_a_pattern_that_is_narrower_than_another_one_of_the_plan_stays():
    for pattern in ("dataset:*", "dataset:sales.*"):
        add_grant("group:operators", pattern, "READ")
    plan = plan_for(("dataset:*", "dataset:sales.*"), ("dataset:sales.*", ORDERS))
    assert sorted(changes_of(plan)) == [("grant", ORDERS), ("revoke", "dataset:*")]


def test_without_narrower_ones_only_a_pattern_that_matches_nothing_is_revoked():
    for pattern in ("dataset:sales.*", "dataset:nowhere.*"):
        add_grant("group:operators", pattern, "READ")
    plan = plan_for(("dataset:sales.*",), ("dataset:nowhere.*",), ("dataset:gone.*",))
    assert changes_of(plan) == [("revoke", "dataset:nowhere.*")]
    assert plan.recipe["note"].startswith("1 grant remains")
    with pytest.raises(PlanError, match="1 grant remains: the report has nothing narrower"):
        plan_for(("dataset:sales.*",))
    with pytest.raises(PlanError, match="there is nothing to narrow"):
        plan_for(("dataset:gone.*", ORDERS))
    with pytest.raises(PlanError, match="run the analysis again"):
        renew_plan(plan)
