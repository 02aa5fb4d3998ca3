"""Test plans with memberships and with users to activate or deactivate."""

import random
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from authzconsole.models import ApiToken
from entities.address import parse_address
from entities.models import Entity
from grants.change_set import Join, Leave
from grants.errors import ChangeRefused, PlanError, StalePlan
from grants.journal import current_revision
from grants.models import GroupGrant, Plan, User, UserGrant, permission_ids
from grants.plans.effect import PrincipalEffects
from grants.plans.stranding import stranded_entities
from tests.support.authors import all_grants, lines_after
from tests.support.cast import create_sample_tenant
from tests.support.changes import (
    add_group,
    add_member,
    apply_plan,
    change_grants,
    create_inverse,
    create_plan_from_changes,
    renew_plan,
    set_user_active,
)

pytestmark = pytest.mark.django_db

OUT_JOINS, GRP_LEAVES = Join("out", "operators"), Leave("grp", "operators")


@pytest.fixture(autouse=True)
def cast():
    return create_sample_tenant()


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
    assert User.objects.get(username="ina").is_active and not User.objects.get(username="dee").is_active
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
    assert not User.objects.get(username="ina").is_active and User.objects.get(username="dee").is_active
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


def test_an_account_that_joins_a_group_becomes_a_principal():
    before = current_revision()
    apply_plan(create_plan(join=[Join("ada", "operators")]))
    assert [line[:2] for line in lines_after(before)][:2] == [
        ("principal-add", "user:ada"),
        ("member-add", "user:ada"),
    ]


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


def test_deactivation_in_a_plan_ends_tokens():
    owner = User.objects.get(username="dee")
    token = ApiToken.objects.create(
        owner=owner,
        name="ci",
        digest="0" * 64,
        scopes=["read"],
        created_at=timezone.now(),
        expires_at=timezone.now() + timedelta(days=1),
    )
    apply_plan(create_plan(deactivate=["dee"]))
    token.refresh_from_db()
    assert token.revoked_at


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


def test_strandings_agree_with_counting_administrators_before_and_after():
    entities = list(Entity.objects.filter(state="live", namespace__key="sales"))
    users = ["ned", "dee", "grp", "ina", "out"]
    for name in ("red", "blue"):
        add_group(name)
    groups = list(Group.objects.all())
    admin = permission_ids()["ADMIN"]
    for seed in range(20):
        draw = random.Random(seed)
        reset(draw, users, groups, entities)
        pairs = [Join(user, group.name) for user in users for group in groups]
        draw.shuffle(pairs)
        names = draw.sample(users, 4)
        grants = [
            (principal, parse_address(str(entity)), "ADMIN")
            for principal in ("user:ned", "user:dee", "group:red")
            for entity in entities
        ]
        draw.shuffle(grants)
        plan = create_plan(
            join=pairs[:3],
            leave=pairs[3:8],
            activate=names[:1],
            deactivate=names[1:3],
            grant=grants[:3],
            revoke=grants[3:7],
        )
        before = administrators(entities, admin)
        predicted = {str(row.address): row.admin_count for row in stranded_entities(plan, max_rows=100)}
        apply_plan(plan)
        after = administrators(entities, admin)
        expected = {
            str(entity): after[entity.pk]
            for entity in entities
            if after[entity.pk] < 2 and after[entity.pk] < min(2, before[entity.pk])
        }
        assert predicted == expected, seed


def reset(draw: random.Random, users, groups, entities) -> None:
    """Set random memberships, activity and ADMIN grants without the services."""
    User.groups.through.objects.all().delete()
    UserGrant.objects.all().delete()
    GroupGrant.objects.all().delete()
    for user in User.objects.filter(username__in=users):
        user.is_active = draw.random() < 0.8
        user.save()
        user.groups.set(draw.sample(groups, draw.randint(0, 2)))
    principals = [*(f"user:{name}" for name in users), "group:red", "group:blue"]
    grants = [
        (principal, parse_address(str(entity)), "ADMIN")
        for principal in principals
        for entity in entities
        if draw.random() < 0.25
    ]
    change_grants(grant=grants)


def administrators(entities, admin: int) -> dict[int, int]:
    active = {"is_active": True, "is_principal": True}
    return {
        entity.pk: len(
            {
                *User.objects.filter(grants__content_object=entity, grants__permission_id=admin, **active),
                *User.objects.filter(
                    groups__grants__content_object=entity, groups__grants__permission_id=admin, **active
                ),
            }
        )
        for entity in entities
    }
