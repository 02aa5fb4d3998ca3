"""Test plans with memberships and with users to activate or deactivate."""

import pytest
from django.contrib.auth.models import Group

from entities.address import parse_address
from entities.vocabulary import ADMIN, READ
from grants.change_set import (
    AddGroup,
    AddUser,
    ChangeSet,
    Grant,
    Join,
    Leave,
    RemovePrincipal,
    Revoke,
    as_text,
    change_from_text,
    inverse_of,
)
from grants.changes import apply
from grants.effects.effect import effect_of
from grants.errors import ChangeRefused, GuardrailHolds, NotAdministrator, PlanError, StalePlan
from grants.journal import current_revision
from grants.models import Plan, PlanItem, User
from grants.plan_items import change_of_item
from grants.plans.apply import plan_violations
from grants.plans.counts import PrincipalEffects
from grants.plans.permission_effect import plan_effect
from grants.plans.sources.changes import change_set_plan
from grants.policies.catalogue import GENERATIONS
from grants.stewards import add_steward
from tests.support.authors import COMMAND, account, all_grants, author_named, is_permitted, lines_after
from tests.support.changes import (
    add_grant,
    add_group,
    add_member,
    apply_plan,
    create_inverse,
    create_plan_from_changes,
    rename_group,
    renew_plan,
    set_user_active,
)
from tests.support.guardrails import add_guardrail

pytestmark = pytest.mark.usefixtures("cast")

ORDERS, CUSTOMERS = parse_address("dataset:sales.orders"), parse_address("dataset:sales.customers")
OUT_JOINS, GRP_LEAVES = Join("out", "operators"), Leave("grp", "operators")


def create_plan(**changes) -> Plan:
    return create_plan_from_changes(**changes)


def memberships() -> set[tuple[str, str]]:
    return set(User.groups.through.objects.values_list("user__username", "group__name"))


def test_a_plan_changes_memberships_and_status_together_and_its_inverse_restores_them():
    plan = create_plan(
        join=[OUT_JOINS],
        leave=[GRP_LEAVES],
        activate=["ina"],
        deactivate=["dee"],
        revoke=[("user:dee", ORDERS, "READ")],
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


def plan_with_a_new_group() -> Plan:
    """Create a plan that moves the direct grant of `dee` to a new group."""
    return change_set_plan.create(
        COMMAND,
        ChangeSet.of(
            AddGroup("readers"),
            Grant("group:readers", ORDERS, READ),
            Join("dee", "readers"),
            Revoke("user:dee", ORDERS, READ),
        ),
    )


def test_a_plan_adds_a_group_with_members_and_grants_and_shows_its_whole_effect():
    plan = plan_with_a_new_group()
    assert (plan.effect["groups"], plan.effect["joins"], plan.effect["grants"]) == (1, 1, 1)
    assert plan.effect["principals"] == 2
    assert not any(plan_effect(plan, generation).has_effect for generation in GENERATIONS.values())
    before = current_revision()
    assert apply_plan(plan).effect == plan.effect
    assert [line[:2] for line in lines_after(before)] == [
        ("group-add", "group:readers"),
        ("revoke", "user:dee"),
        ("grant", "group:readers"),
        ("member-add", "user:dee"),
        ("plan-apply", ""),
    ]
    assert ("dee", "readers") in memberships()
    assert not plan_effect(plan).has_effect


def test_a_new_group_has_a_json_form():
    change = AddGroup("readers")
    assert as_text(change) == '["add","readers"]' and change_from_text(as_text(change)) == change


def test_a_new_user_gains_what_the_same_changes_give():
    changes = [
        AddUser("zed"),
        AddGroup("readers"),
        Grant("group:readers", ORDERS, READ),
        Join("zed", "readers"),
    ]
    assert [change_from_text(as_text(change)) for change in changes] == changes
    effect = effect_of(changes, GENERATIONS["final"])
    User.objects.create(username="new", is_principal=False)
    expected = effect_of([Grant("user:new", ORDERS, READ)], GENERATIONS["final"])
    assert [(row.user, row.entity, row.operation) for row in effect.rows()] == [
        ("zed", row.entity, row.operation) for row in expected.rows()
    ]
    before = current_revision()
    apply(ChangeSet(tuple(changes)), author=COMMAND)
    assert [line[0] for line in lines_after(before)] == ["user-add", "group-add", "grant", "member-add"]
    assert is_permitted("zed", "read", ORDERS)
    assert not effect_of(changes, GENERATIONS["final"]).has_effect
    assert inverse_of(changes[0]) == RemovePrincipal("user:zed")


def test_members_of_a_new_group_gain_what_the_plan_grants_to_it():
    changes = [AddGroup("readers"), Grant("group:readers", ORDERS, READ), Join("out", "readers")]
    rows = list(effect_of(changes, GENERATIONS["final"]).rows())
    assert {(row.user, row.after) for row in rows} == {("out", True)}
    assert rows == list(effect_of([Grant("user:out", ORDERS, READ)], GENERATIONS["final"]).rows())


def test_undoing_a_plan_removes_the_group_that_it_added_and_another_undo_adds_it_again(monkeypatch):
    # every batch has one item
    monkeypatch.setattr("grants.plan_items.ITEMS_PER_BATCH", 1)
    monkeypatch.setattr("grants.plans.create.ITEMS_PER_BATCH", 1)

    def state():
        return all_grants(), memberships(), set(Group.objects.values_list("name", flat=True))

    plan, before = plan_with_a_new_group(), state()
    apply_plan(plan)
    after = state()
    rename_group(name="readers", new_name="order-readers")
    inverse = create_inverse(plan)
    assert inverse.recipe == {} and inverse.effect["removals"] == 1
    assert not plan_effect(inverse).has_effect
    assert apply_plan(inverse).effect == inverse.effect
    assert state() == before
    with pytest.raises(PlanError, match=f"already undone by {inverse}"):
        create_inverse(plan)
    again = apply_plan(create_inverse(inverse))
    rename_group(name="order-readers", new_name="readers")
    assert state() == after and again.effect["groups"] == 1


@pytest.mark.parametrize("use", ["member", "grant", "steward"])
def test_undoing_a_plan_keeps_a_group_that_is_used_otherwise_and_says_so(use):
    apply_plan(plan := plan_with_a_new_group())
    early = create_inverse(plan)
    if use == "member":
        add_member("out", "readers")
    elif use == "grant":
        add_grant("group:readers", CUSTOMERS, READ)
    else:
        add_steward(author=COMMAND, namespace=parse_address("namespace:sales"), principal="group:readers")
    with pytest.raises(StalePlan):
        apply_plan(early)
    inverse = renew_plan(early)
    assert inverse.recipe["note"] == "group:readers got other members, grants or duties, and remains."
    apply_plan(inverse)
    assert Group.objects.filter(name="readers").exists() and ("dee", "readers") not in memberships()


def test_a_plan_with_a_new_group_is_stale_when_somebody_else_adds_the_group():
    plan = plan_with_a_new_group()
    add_group("readers")
    with pytest.raises(StalePlan, match="group-add"):
        apply_plan(plan)
    assert renew_plan(plan).effect["already"] == 1


@pytest.mark.parametrize("name", ["Operators", "", "a\tb"])
def test_a_plan_refuses_a_new_group_with_an_invalid_name(name):
    with pytest.raises((PlanError, ChangeRefused), match="name"):
        change_set_plan.create(COMMAND, ChangeSet.of(AddGroup(name)))
    assert not Plan.objects.exists()


def test_a_group_is_added_by_those_who_may_add_groups_only():
    changes = ChangeSet.of(AddGroup("readers"), Join("out", "readers"))
    with pytest.raises(NotAdministrator):
        apply(changes, author=author_named("dee"))
    assert apply(changes, author=author_named("ada")).has_changed
    assert apply(ChangeSet.of(AddGroup("readers")), author=COMMAND).sentence == (
        "group:readers already exists: nothing changed"
    )


def test_a_guardrail_stops_a_plan_whose_new_group_would_violate_it():
    add_guardrail(
        "no-new-owners",
        {"forbid": {"members_of": "group:operators", "privileges": ["ADMIN"], "within": "namespace:sales"}},
    )
    plan = change_set_plan.create(
        COMMAND,
        ChangeSet.of(AddGroup("owners"), Join("grp", "owners"), Grant("group:owners", ORDERS, ADMIN)),
    )
    assert plan_violations(plan).blocked
    with pytest.raises(GuardrailHolds):
        apply_plan(plan)
    assert not Group.objects.filter(name="owners").exists()
