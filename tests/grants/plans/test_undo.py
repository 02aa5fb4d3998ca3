"""Test what the undo of a plan restores, and what must be confirmed for it."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.address import parse_address
from entities.vocabulary import ANY
from grants.changes import Shown
from grants.effects.effect import RowFilter
from grants.models import JournalLine, Plan, UserGrant
from grants.plans.permission_effect import plan_effect
from grants.plans.sources.off_boarding import OffBoarding, off_boarding_plan
from grants.policies.catalogue import GENERATIONS
from grants.verification.replay import first_fault
from tests.support.authors import COMMAND, all_grants
from tests.support.changes import (
    add_grant,
    add_group,
    add_member,
    add_user,
    apply_plan,
    change_grants,
    create_inverse,
    create_plan_from_changes,
    discard_plan,
    register_entity,
    rename_user,
    renew_plan,
    revoke_grant,
)

pytestmark = pytest.mark.django_db

NAMESPACE, SHOP, DAILY, ORDERS, LEDGER = (
    parse_address(text)
    for text in (
        "namespace:sales",
        "application:sales.shop",
        "program:sales.shop.workflow.daily",
        "dataset:sales.orders",
        "dataset:sales.ledger",
    )
)
CONFIRMED = Shown(accepts_beyond=True)


@pytest.fixture(autouse=True)
def tenant():
    """A tenant with a complete history. lea administers SHOP and ORDERS alone; no user administers LEDGER."""
    for name in ("lea", "tom", "kim"):
        add_user(name)
    add_group("stewards")
    add_member("lea", "stewards")
    for address in (NAMESPACE, SHOP, DAILY, ORDERS, LEDGER):
        register_entity(address)
    change_grants(
        grant=[
            *(("user:lea", SHOP, privilege) for privilege in ANY),
            ("user:lea", ORDERS, "ADMIN"),
            ("user:lea", ORDERS, "READ"),
            ("user:lea", NAMESPACE, "READ"),
            ("group:stewards", DAILY, "EXECUTE"),
            ("user:tom", DAILY, "READ"),
        ]
    )


def off_board(**choices) -> Plan:
    plan = off_boarding_plan.create(
        author=COMMAND, choices=OffBoarding("lea", accept_no_administrator=True, **choices)
    )
    return apply_plan(plan, shown=CONFIRMED)


def changed(plan: Plan, change: str) -> set[tuple]:
    return {(row.user, row.entity, row.operation) for row in plan_effect(plan).rows(RowFilter(change=change))}


def test_an_undo_restores_permissions_without_going_beyond_its_purpose():
    """Also permissions on other addresses than those of its grants: they are what the undone plan took."""
    before = all_grants()
    plan = off_board(stranded_heirs=["user:tom"])
    for generation in GENERATIONS.values():
        undo = create_inverse(plan)
        effect = plan_effect(undo, generation)
        assert effect.has_effect and effect.tally.beyond == 0, generation.name
        discard_plan(undo)
    undo = create_inverse(plan)
    assert (changed(undo, "gained"), changed(undo, "lost")) == (
        changed(plan, "lost"),
        changed(plan, "gained"),
    )
    undo = apply_plan(undo, shown=Shown(plan_effect(undo).digest))
    assert all_grants() == before and plan_effect(undo).tally.beyond == 0


def test_without_what_the_plan_took_the_same_grants_go_beyond_their_purpose():
    """The test above proves something only if the changed grants themselves are a narrower purpose."""
    revoked = [("user:lea", SHOP, "ADMIN")]
    plan = create_plan_from_changes(revoke=revoked)
    apply_plan(plan, shown=CONFIRMED)
    again = create_plan_from_changes(grant=revoked)
    undo = create_inverse(plan)
    assert (
        plan_effect(again, "existing").tally.gained_beyond
        > 0
        == plan_effect(undo, "existing").tally.gained_beyond
    )


def test_permissions_that_the_plan_did_not_take_are_beyond_the_purpose_of_its_undo():
    plan = create_plan_from_changes(revoke=[("user:lea", SHOP, "ADMIN")])
    apply_plan(plan, shown=CONFIRMED)
    report = parse_address("program:sales.shop.workflow.report")
    register_entity(report)
    undo = create_inverse(plan)
    beyond = list(plan_effect(undo, "existing").rows(RowFilter(purpose="beyond")))
    assert beyond and {row.entity for row in beyond} == {str(report)}


def test_a_renamed_user_gets_back_the_same_permissions():
    plan = off_board(stranded_heirs=["user:tom"])
    rename_user(author=COMMAND, name="lea", new_name="lea.berg")
    undo = create_inverse(plan)
    assert plan_effect(undo).tally.beyond == 0
    assert changed(undo, "gained") == {("lea.berg", *rest) for _, *rest in changed(plan, "lost")}


def stranded(plan: Plan) -> dict[str, int]:
    return {f"{row.kind}:{row.key}": row.admins_left for row in plan.strandings.all()}


def test_entities_that_are_only_back_where_they_were_need_no_confirmation():
    plan = off_board(stranded_heirs=["user:tom", "user:kim"])
    undo = create_inverse(plan)
    assert stranded(undo) == {} and (undo.effect["stranded_none"], undo.effect["stranded_one"]) == (0, 0)
    # the change makes the undo stale
    add_grant("user:tom", ORDERS, "READ")
    assert stranded(renew_plan(undo)) == {}


def test_entities_with_fewer_administrators_than_before_the_undone_plan_must_be_confirmed():
    add_grant("user:kim", ORDERS, "ADMIN")
    plan = create_plan_from_changes(grant=[("user:tom", ORDERS, "ADMIN"), ("user:tom", LEDGER, "ADMIN")])
    apply_plan(plan, shown=CONFIRMED)
    revoke_grant("user:kim", ORDERS, "ADMIN")
    undo = create_inverse(plan)
    assert stranded(undo) == {str(ORDERS): 1} and undo.effect["stranded_one"] == 1


def test_the_number_of_queries_does_not_grow_with_the_undone_plan():
    def query_count(names) -> int:
        addresses = [parse_address(f"dataset:sales.{name}") for name in names]
        for address in addresses:
            register_entity(address)
        items = [(f"user:{user}", address, "ADMIN") for address in addresses for user in ("lea", "tom")]
        plan = create_plan_from_changes(grant=items)
        apply_plan(plan, shown=CONFIRMED)
        plan_effect(plan := Plan.objects.get(pk=plan.pk))
        with CaptureQueriesContext(connection) as captured:
            assert plan_effect(undo := create_inverse(plan)).tally.beyond == 0
        assert stranded(undo) == {}
        return len(captured)

    assert query_count(["d0", "d1"]) >= query_count([f"e{number}" for number in range(40)])


def test_restored_grants_name_the_undo_and_the_undone_plan_as_their_reason():
    """They have the author and time of the undo, which would otherwise look like those of the original grant."""
    plan = off_board(stranded_heirs=["user:tom"])
    undo = apply_plan(create_inverse(plan), shown=CONFIRMED)
    reason = f"{COMMAND.reason} (restored by {undo}, which undid {plan})"
    grants = UserGrant.objects.filter(user__username="lea")
    assert set(grants.values_list("reason", flat=True)) == {reason} and grants.count() == 7
    lines = JournalLine.objects.filter(detail=str(undo))
    assert set(lines.filter(action="grant").values_list("reason", flat=True)) == {reason}
    assert set(lines.filter(action="revoke").values_list("reason", flat=True)) == {COMMAND.reason}
    assert first_fault() is None
