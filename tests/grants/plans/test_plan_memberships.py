"""Test plans with memberships and with users to activate or deactivate."""

import pytest

from entities.address import parse_address
from grants.change_set import Join, Leave
from grants.errors import ChangeRefused, PlanError, StalePlan
from grants.journal import current_revision
from grants.models import Plan, PlanItem, User
from grants.plans.counts import PrincipalEffects
from grants.plans.items import change_of_item
from tests.support.authors import account, all_grants, lines_after
from tests.support.changes import (
    add_member,
    apply_plan,
    create_inverse,
    create_plan_from_changes,
    renew_plan,
    set_user_active,
)

pytestmark = pytest.mark.usefixtures("cast")

OUT_JOINS, GRP_LEAVES = Join("out", "operators"), Leave("grp", "operators")


def create_plan(**changes) -> Plan:
    return create_plan_from_changes(**changes)


def memberships() -> set[tuple[str, str]]:
    return set(User.groups.through.objects.values_list("user__username", "group__name"))


def test_a_plan_changes_memberships_and_status_together_and_its_inverse_restores_them():
    orders = parse_address("dataset:sales.orders")
    plan = create_plan(
        join=[OUT_JOINS],
        leave=[GRP_LEAVES],
        activate=["ina"],
        deactivate=["dee"],
        revoke=[("user:dee", orders, "READ")],
    )
    assert plan.title == "Revoke 1 and join 1 and leave 1 and activate 1 and deactivate 1"
    counts = {
        name: plan.effect[name]
        for name in ("grants", "revokes", "joins", "leaves", "activations", "deactivations")
    }
    assert counts == {
        "grants": 0,
        "revokes": 1,
        "joins": 1,
        "leaves": 1,
        "activations": 1,
        "deactivations": 1,
    }
    before, grants_before = current_revision(), all_grants()
    assert memberships() == {("grp", "operators")}
    assert apply_plan(plan).effect == plan.effect
    assert memberships() == {("out", "operators")}
    assert account("ina").is_active and not account("dee").is_active
    assert lines_after(before) == [
        ("revoke", "user:dee", "dataset:sales.orders", "READ", f"plan {plan.pk}"),
        ("member-remove", "user:grp", "", "", "group:operators"),
        ("member-add", "user:out", "", "", "group:operators"),
        ("user-activate", "user:ina", "", "", f"plan {plan.pk}"),
        ("user-deactivate", "user:dee", "", "", f"plan {plan.pk}"),
        ("plan-apply", "", "", "", f"plan {plan.pk}: {plan.title}"),
    ]
    inverse = create_inverse(plan)
    apply_plan(inverse)
    assert memberships() == {("grp", "operators")} and all_grants() == grants_before
    assert not account("ina").is_active and account("dee").is_active
    with pytest.raises(PlanError, match=f"already undone by plan {inverse.pk}: there is nothing to undo"):
        create_inverse(plan)


def test_items_that_change_nothing_are_counted_and_skipped():
    plan = create_plan(
        join=[Join("grp", "operators")],
        leave=[Leave("out", "operators")],
        activate=["ned"],
        deactivate=["ina"],
    )
    assert plan.effect["already"] == 4 and not len(PrincipalEffects(plan))
    before = current_revision()
    assert apply_plan(plan).effect["already"] == 4 and current_revision() == before


def test_the_effect_on_a_user_names_memberships_and_status():
    plan = create_plan(join=[OUT_JOINS], leave=[GRP_LEAVES], deactivate=["grp"])
    grp, out = PrincipalEffects(plan)[0:9]
    assert (grp.principal, grp.leaves, grp.activation) == ("user:grp", 1, "deactivate")
    assert (out.principal, out.joins, out.activation) == ("user:out", 1, "")


@pytest.mark.parametrize(
    "change",
    [
        lambda: add_member("out", "operators"),
        lambda: set_user_active("dee", active=False),
    ],
)
def test_a_plan_becomes_stale_when_its_memberships_or_users_change_and_can_be_renewed(change):
    plan = create_plan(join=[OUT_JOINS], deactivate=["dee"])
    change()
    with pytest.raises(StalePlan):
        apply_plan(plan)
    renewed = renew_plan(plan)
    assert renewed.effect["already"] == 1
    apply_plan(renewed)


def test_other_members_of_a_group_do_not_make_a_plan_stale():
    plan = create_plan(join=[OUT_JOINS])
    add_member("dee", "operators")
    apply_plan(plan)


def test_the_last_administrator_cannot_be_deactivated_by_a_plan():
    plan = create_plan(deactivate=["ada"], join=[OUT_JOINS])
    with pytest.raises(PlanError, match="the only active administrator"):
        apply_plan(plan)
    assert memberships() == {("grp", "operators")}


def test_invalid_items_are_refused_with_their_position():
    with pytest.raises(ChangeRefused) as refusal:
        create_plan(join=[OUT_JOINS, OUT_JOINS, Join("nobody", "operators"), Join("out", "none")])
    assert [(error.index, error.verb) for error in refusal.value.errors] == [
        (1, "join"),
        (2, "join"),
        (3, "join"),
    ]
    with pytest.raises(ChangeRefused, match=r"user:dee repeats deactivate\[0\]"):
        create_plan(deactivate=["dee", "dee"])


def test_an_item_with_an_unknown_verb_is_refused_and_is_no_deactivation():
    with pytest.raises(ValueError, match="unknown verb 'suspend'"):
        change_of_item(PlanItem(verb="suspend", principal_name="bob"))
