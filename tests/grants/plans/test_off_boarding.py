"""Test the plans that off-board a user."""

from datetime import timedelta

import pytest
from django.utils import timezone

from entities.address import parse_address
from entities.selectors import entity_at
from grants.errors import PlanError, StalePlan
from grants.models import Plan, UserGrant
from grants.plans.sources.off_boarding import OffBoarding, heir_candidates, held_entities, off_boarding_plan
from grants.stewards import add_steward
from grants.validity import Validity
from tests.support.authors import COMMAND, account, all_grants
from tests.support.cast import DELETED, PLANNED, SALES, create_sample_tenant
from tests.support.changes import (
    add_grant,
    add_group,
    add_member,
    apply_plan,
    change_grants,
    create_inverse,
    items_of,
    renew_plan,
)

pytestmark = pytest.mark.django_db
ORDERS = "dataset:sales.orders"


@pytest.fixture(autouse=True)
def cast():
    users = create_sample_tenant()
    add_group("stewards")
    add_member("ned", "stewards")
    change_grants(grant=[("user:ned", address, "READ") for address in (PLANNED, DELETED)])
    add_grant("group:stewards", "dataset:hr.salaries", "ADMIN")
    return users


def off_board(**choices) -> Plan:
    return off_boarding_plan.create(author=COMMAND, choices=OffBoarding("ned", **choices))


def test_one_plan_hands_over_revokes_everything_leaves_groups_and_deactivates_and_can_be_undone():
    before = all_grants()
    plan = off_board(
        stranded_heirs=["user:dee"],
        entity_heirs={ORDERS: ["user:out", "group:operators"]},
        namespace_heirs={"namespace:hr": ["user:grp"]},
    )
    apply_plan(plan)
    ned = account("ned")
    assert not ned.is_active and not ned.groups.exists() and not UserGrant.objects.filter(user=ned).exists()
    expected = (
        {(heir, ORDERS, "ADMIN") for heir in ("user:out", "group:operators")}
        | {("user:dee", address, "ADMIN") for address in SALES if address != ORDERS}
        | {("user:grp", "dataset:hr.salaries", "ADMIN")}
    )
    assert all_grants() - before == expected
    inverse = create_inverse(plan)
    assert "do not come back" in inverse.recipe["note"]
    apply_plan(inverse)
    ned.refresh_from_db()
    assert all_grants() == before and ned.is_active and ned.groups.filter(name="stewards").exists()


def test_grants_on_planned_and_deleted_addresses_are_revoked_and_planned_ones_are_handed_over_by_namespace():
    plan = off_board(namespace_heirs={"namespace:sales": ["user:out"]}, stranded_heirs=["user:dee"])
    items = set(items_of(plan))
    assert {
        ("revoke", "user:ned", PLANNED, "READ"),
        ("revoke", "user:ned", DELETED, "READ"),
        ("grant", "user:out", PLANNED, "READ"),
    } <= items
    assert ("grant", "user:out", DELETED, "READ") not in items


def test_entities_without_an_administrator_must_be_confirmed():
    with pytest.raises(PlanError, match=r"and 4 more would have no active ADMIN holder"):
        off_board()
    assert not Plan.objects.exists()
    plan = off_board(accept_no_administrator=True)
    assert plan.effect["stranded_none"] == len(SALES) + 1


def test_steps_can_be_left_out():
    plan = off_board(deactivate=False, revoke_grants=False, accept_no_administrator=True)
    assert [(item.verb, item.group) for item in plan.items.all()] == [("leave", "group:stewards")]


@pytest.mark.parametrize(
    ("heir", "message"),
    [
        ("user:ned", "cannot hand over to"),
        ("user:ina", "is inactive"),
        ("user:none", "does not exist"),
        ("group:none", "does not exist"),
    ],
)
def test_heirs_are_other_active_principals(heir, message):
    with pytest.raises(PlanError, match=message):
        off_board(stranded_heirs=[heir])


def test_the_plan_is_stale_after_a_change_of_the_user_and_can_be_renewed():
    plan = off_board(stranded_heirs=["user:dee"])
    add_grant("user:ned", "namespace:hr", "ADMIN")
    with pytest.raises(StalePlan):
        apply_plan(plan)
    renewed = renew_plan(plan)
    assert renewed.effect["revokes"] == plan.effect["revokes"] + 1
    assert apply_plan(renewed).effect["deactivations"] == 1


def test_stranded_entities_come_first():
    add_grant("user:ned", "namespace:hr", "READ")
    held = held_entities(account("ned"))
    assert [row.is_stranded for row in held] == [True] * (len(SALES) + 1) + [False] * 2
    assert {str(row.entity) for row in held[-2:]} == {"namespace:hr", PLANNED}


def test_grants_are_handed_over_with_their_periods_and_shorten_none():
    now, day = timezone.now().replace(microsecond=0), timedelta(days=1)
    until, later = Validity(None, now + 3 * day), Validity(now + day, now + 9 * day)
    hr, salaries = parse_address("namespace:hr"), parse_address("dataset:hr.salaries")
    change_grants(
        grant=[
            ("user:ned", hr, "READ", until),
            ("user:ned", hr, "WRITE", later),
            ("user:ned", hr, "EXECUTE", until),
            ("user:out", hr, "READ", later),
            ("user:dee", hr, "READ"),
            ("user:dee", hr, "WRITE", until),
        ]
    )
    # salaries is stranded, and the limited ADMIN of the user stays limited; the expired grant is not handed
    # over
    change_grants(grant=[("user:ned", salaries, "ADMIN", until), ("user:ned", salaries, "READ", until)])
    UserGrant.objects.filter(
        user__username="ned", permission__codename="read", content_object__key="hr.salaries"
    ).update(valid_until=now - day)
    plan = off_board(namespace_heirs={"namespace:hr": ["user:out", "user:dee"]}, accept_no_administrator=True)
    items = {
        (item.principal, str(item.address), str(item.privilege)): item.validity
        for item in plan.items.filter(verb="grant")
    }
    assert items == {
        ("user:out", "namespace:hr", "READ"): Validity(None, later.valid_until),
        ("user:out", "namespace:hr", "WRITE"): later,
        ("user:out", "namespace:hr", "EXECUTE"): until,
        ("user:out", "dataset:hr.salaries", "ADMIN"): until,
        ("user:dee", "namespace:hr", "WRITE"): Validity(None, later.valid_until),
        ("user:dee", "namespace:hr", "EXECUTE"): until,
        ("user:dee", "dataset:hr.salaries", "ADMIN"): until,
    }


def test_candidates_hold_admin_nearby_or_are_stewards_or_share_groups_and_are_active(cast):
    add_grant("user:out", "namespace:sales", "ADMIN")
    add_grant("user:dee", "namespace:sales", "ADMIN")
    add_grant("user:dee", ORDERS, "ADMIN")
    add_grant("group:operators", "dataset:hr.salaries", "ADMIN")
    add_grant("group:stewards", "namespace:sales", "ADMIN")
    add_grant("user:ina", ORDERS, "ADMIN")
    add_member("grp", "stewards")
    add_steward(author=COMMAND, namespace=parse_address("namespace:hr"), principal="user:out")
    held = held_entities(account("ned"))
    sales = entity_at(parse_address("namespace:sales")).pk
    rows = {
        row.principal: (row.administered, row.is_steward, row.shared_groups)
        for row in heir_candidates(account("ned"), held, 10)[sales]
    }
    assert rows["user:dee"] == (2, False, 0) and rows["user:out"] == (1, False, 0)
    # the group has another active member
    assert rows["group:stewards"] == (1, False, 0) and rows["user:grp"] == (0, False, 1)
    assert not {"user:ina", "user:ned", "group:operators"} & rows.keys()
    assert [row.principal for row in heir_candidates(account("ned"), held, 1)[sales]] == ["user:dee"]
