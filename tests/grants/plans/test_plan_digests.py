"""The journal has a digest of each plan, so its items and makers cannot be changed in the database."""

import pytest

from entities.address import parse_address
from grants.errors import PlanError
from grants.journal import sign_head
from grants.models import JournalHead, JournalLine, Plan, PlanItem, UserGrant
from grants.verification.replay import first_fault
from tests.support.authors import COMMAND, account
from tests.support.changes import (
    add_user,
    apply_plan,
    create_plan_from_changes,
    discard_plan,
    register_entity,
    renew_plan,
)

pytestmark = pytest.mark.django_db
ORDERS = parse_address("dataset:sales.orders")


@pytest.fixture
def plan():
    for name in ("alice", "mallory"):
        add_user(name)
    for address in ("namespace:sales", ORDERS):
        register_entity(address)
    return create_plan_from_changes(grant=[("user:alice", ORDERS, "ADMIN")])


ATTACKS = {
    "another principal": lambda: PlanItem.objects.update(principal_name="mallory"),
    "another entity": lambda: PlanItem.objects.update(key="sales.pay"),
    "another verb": lambda: PlanItem.objects.update(verb="revoke"),
    "another maker": lambda: Plan.objects.update(maker_ids=[account("mallory").pk]),
    "another author": lambda: Plan.objects.update(made_by="mallory"),
    "no items": lambda: PlanItem.objects.all().delete(),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_attack_on_a_proposed_plan_is_noticed_and_not_applied(plan, attack):
    assert first_fault() is None
    ATTACKS[attack]()
    assert f"the content of plan {plan.pk}" in str(first_fault())
    with pytest.raises(PlanError, match="was changed in the database"):
        apply_plan(plan)
    assert not UserGrant.objects.exists()
    assert discard_plan(plan).state == "discarded"


def test_the_attack_on_the_line_about_a_plan_is_noticed(plan):
    PlanItem.objects.update(principal_name="mallory")
    line = JournalLine.objects.get(action="plan-create")
    forged = create_plan_from_changes(grant=[("user:mallory", ORDERS, "ADMIN")])
    detail = JournalLine.objects.latest("revision").detail.replace(f"plan {forged.pk}", f"plan {plan.pk}")
    JournalLine.objects.filter(pk=line.pk).update(detail=detail)
    with pytest.raises(PlanError, match="was changed in the database"):
        apply_plan(plan)


def test_the_attack_a_plan_without_a_line_is_noticed_and_not_applied(plan):
    PlanItem.objects.all().delete()
    forged = Plan.objects.get()
    forged.pk = None
    forged.save(force_insert=True)
    assert "the content of plan" in str(first_fault())
    with pytest.raises(PlanError, match="was changed in the database"):
        apply_plan(forged)


def test_a_deleted_plan_is_noticed(plan):
    Plan.objects.all().delete()
    assert f"the content of plan {plan.pk} is" in str(first_fault())


def test_applied_renewed_and_discarded_plans_verify(plan):
    renewed = renew_plan(plan)
    apply_plan(renewed)
    again = create_plan_from_changes(grant=[("user:mallory", ORDERS, "READ")])
    discard_plan(again)
    assert first_fault() is None


def test_plans_of_an_earlier_version_verify_and_are_applied(plan):
    """Version 1.1.0 wrote no line about the creation of a plan."""
    JournalLine.objects.filter(action="plan-create").delete()
    last = JournalLine.objects.latest("revision")
    head = JournalHead.objects.get()
    head.revision, head.hash = last.revision, last.hash
    sign_head(head)
    head.save()
    assert first_fault() is None
    assert apply_plan(plan, author=COMMAND).state == "applied"
