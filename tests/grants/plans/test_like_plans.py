"""Test the plans that give a user the access of a colleague, or make two users alike."""

import random

import pytest
from django.contrib.auth.models import Group

from entities.address import parse_address
from grants.errors import PlanError, StalePlan
from grants.models import User
from grants.plans.sources.like import differences, like_plan
from grants.principals.user_comparison import compare_groups, differing_entities
from tests.support.authors import COMMAND, account, all_grants
from tests.support.cast import SALES
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

pytestmark = pytest.mark.usefixtures("cast")


def like(source: str, target: str, **options):
    return like_plan.create(author=COMMAND, source=source, target=target, **options)


def test_chosen_groups_and_grants_are_added_and_the_others_are_not():
    add_member("ned", "operators")
    keys = frozenset(["join group:operators", "grant ADMIN dataset:sales.orders"])
    plan = like("ned", "dee", items=keys)
    assert plan.title == "Give user:dee access like user:ned"
    apply_plan(plan)
    assert account("dee").groups.filter(name="operators").exists()
    assert {grant for grant in all_grants() if grant[0] == "user:dee"} == {
        ("user:dee", "dataset:sales.orders", "READ"),
        ("user:dee", "dataset:sales.orders", "ADMIN"),
        ("user:dee", "dataset:sales.legacy", "WRITE"),
    }
    with pytest.raises(PlanError, match="nothing is selected"):
        like("ned", "dee", items=keys)


def test_without_removals_the_target_keeps_what_only_it_has():
    plan = like("ned", "dee")
    assert plan.effect["revokes"] == 0 and plan.effect["grants"] == len(SALES)


@pytest.mark.parametrize("seed", range(6))
def test_made_alike_two_users_have_no_difference_and_undo_restores_them(seed):
    draw = random.Random(seed)
    for name in ("red", "blue", "green"):
        add_group(name)
    for name in ("ned", "dee"):
        account(name).groups.set(draw.sample(list(Group.objects.all()), 2))
    holders = ("user:ned", "user:dee", "group:red", "group:blue")
    grants = {
        (draw.choice(holders), parse_address(address), draw.choice(("READ", "ADMIN")))
        for address in SALES
        for _ in range(3)
    }
    change_grants(grant=grants)
    before, groups = all_grants(), set(User.groups.through.objects.values_list("user_id", "group_id"))
    plan = like("ned", "dee", remove=True)
    apply_plan(plan)
    one, other = account("ned"), account("dee")
    compared = compare_groups(one, other)
    assert not compared.only_first and not compared.only_second and not list(differences(one, other))
    assert not differing_entities(one, other, compared).entities.exists()
    apply_plan(create_inverse(plan))
    assert (
        all_grants() == before
        and set(User.groups.through.objects.values_list("user_id", "group_id")) == groups
    )


def test_a_stale_plan_is_renewed_with_the_same_items():
    keys = frozenset(["grant ADMIN dataset:sales.orders", "grant ADMIN dataset:sales.customers"])
    plan = like("ned", "dee", items=keys)
    add_grant("user:dee", "dataset:sales.orders", "ADMIN")
    renewed = renew_plan(plan)
    assert [str(item.address) for item in renewed.items.all()] == ["dataset:sales.customers"]


def test_both_users_must_exist_and_differ():
    for names, message in (
        (("ned", "ned"), "two different users"),
        (("ned", "none"), "user:none does not exist"),
    ):
        with pytest.raises(PlanError, match=message):
            like(*names)


def test_without_a_namespace_the_plan_is_renewed_in_the_same_way_and_watches_the_groups():
    add_member("ned", "operators")
    for address in ("dataset:hr.salaries", "dataset:sales.orders"):
        add_grant("group:operators", address, "READ")
    plan = like("ned", "out", without=["namespace:hr"])
    assert ("user:out", "dataset:hr.salaries", "READ") not in items_of(plan)
    add_grant("group:operators", "dataset:sales.customers", "READ")
    with pytest.raises(StalePlan):
        apply_plan(plan)
    apply_plan(renew_plan(plan))
    held = {(str(address), privilege) for name, address, privilege in all_grants() if name == "user:out"}
    assert {("dataset:sales.orders", "READ"), ("dataset:sales.customers", "READ")} < held
    assert ("dataset:hr.salaries", "READ") not in held and not account("out").groups.exists()


def test_only_namespaces_are_left_out_and_not_together_with_removals():
    with pytest.raises(PlanError, match="dataset:sales.orders is not a namespace"):
        like("ned", "dee", without=["dataset:sales.orders"])
    with pytest.raises(PlanError, match="cannot be made alike"):
        like("ned", "dee", remove=True, without=["namespace:sales"])
