"""Test the forecast of stranded entities, and the comparison of two users, on random tenants and in examples."""

import itertools
from copy import deepcopy
from dataclasses import replace

import pytest
from django.contrib.auth.models import Group

from entities.address import parse_address
from entities.models import Entity, State
from entities.selectors import entity_at
from entities.vocabulary import ADMIN, MIN_ADMINISTRATORS
from grants.administrators import Strandings
from grants.change_set import Leave, Revoke
from grants.models import User
from grants.policies.principals import group_text, type_and_name
from grants.principals.administrator_loss import (
    capped_admin_count,
    loss_if_member_removed,
    loss_if_removed,
    loss_if_revoked,
)
from grants.principals.user_comparison import compare_groups, differing_entities
from tests.support.cast import create_sample_tenant
from tests.support.changes import change_grants
from tests.support.random_tenants import (
    Tenant,
    administrator_counts,
    changed_tenant,
    random_tenant,
    seeds,
    store_tenant,
)

pytestmark = pytest.mark.django_db
ORDERS, SALARIES = "dataset:sales.orders", "dataset:hr.salaries"


def rows(loss: Strandings) -> dict:
    counts = {row.address: row.admin_count for row in loss.entities}
    assert (loss.without_admin_count, loss.one_admin_count) == (
        list(counts.values()).count(0),
        list(counts.values()).count(1),
    )
    return counts


def expected_after_removal(tenant: Tenant, principal: str) -> dict:
    """Return the live entities with too few administrators on which the principal holds ADMIN."""
    kind, name = type_and_name(principal)
    if kind == "user":
        after = replace(tenant, users=tenant.users | {name: (False, False)})
        holders = {
            principal,
            *(group_text(group) for group, members in tenant.groups.items() if name in members),
        }
    else:
        after = deepcopy(tenant)
        after.groups[name] = []
        after.role_groups = {
            role: [group for group in groups if group != name]
            for role, groups in tenant.role_groups.items()
            if role != name
        }
        after.expand_roles()
        is_active = any(tenant.users[member] == (True, True) for member in tenant.groups[name])
        roles = {role for role in after.role_groups if after.groups[role] != tenant.groups[role]}
        holders = {principal, *roles} if is_active else set()
    return {
        address: count
        for address, count in administrator_counts(after).items()
        if count < MIN_ADMINISTRATORS and any((holder, address, ADMIN) in tenant.grants for holder in holders)
    }


def expected_after(tenant: Tenant, change) -> dict:
    before = administrator_counts(tenant)
    return {
        address: count
        for address, count in administrator_counts(changed_tenant(tenant, [change])).items()
        if count < min(MIN_ADMINISTRATORS, before[address])
    }


@pytest.fixture(params=seeds(range(4)))
def tenant(request):
    stored = random_tenant(request.param, has_roles=True)
    store_tenant(stored)
    return stored


def test_a_removal_strands_what_the_principal_administers_if_too_few_administrators_remain(tenant):
    principals = {f"user:{user.username}": user for user in User.objects.all()}
    principals |= {group_text(group.name): group for group in Group.objects.all()}
    expected = {name: expected_after_removal(tenant, name) for name in principals}
    assert {name: rows(loss_if_removed(row)) for name, row in principals.items()} == expected
    assert any(expected.values())


def test_the_end_of_one_grant_or_membership_strands_what_loses_an_administrator(tenant):
    users = {user.username: user for user in User.objects.all()}
    groups = {group.name: group for group in Group.objects.all()}
    for name, members in tenant.groups.items():
        for user in members:
            assert rows(loss_if_member_removed(users[user], groups[name])) == expected_after(
                tenant, Leave(user, name)
            )
    administered = sorted((grant for grant in tenant.grants if grant[2] == ADMIN), key=str)
    for principal, address, privilege in administered[::3]:
        kind, name = type_and_name(principal)
        holder = users[name] if kind == "user" else groups[name]
        expected = expected_after(tenant, Revoke(principal, address, privilege))
        assert rows(loss_if_revoked(holder, entity_at(address))) == expected


def test_users_differ_where_one_holds_a_privilege_that_the_other_lacks(tenant):
    held = {
        user: {(address, privilege) for holder, address, privilege in tenant.grants if holder in holders}
        for user in tenant.users
        if (holders := tenant.holders("user", user))
    }
    users = {user.username: user for user in User.objects.all()}
    for first, second in itertools.combinations(held, 2):
        pair = users[first], users[second]
        differing = differing_entities(*pair, compare_groups(*pair)).entities
        assert {entity.address for entity in differing} == {
            address for address, _ in held[first] ^ held[second]
        }


def test_administrators_are_counted_up_to_two_in_every_state(tenant):
    counts = administrator_counts(replace(tenant, entities=dict.fromkeys(tenant.entities, State.LIVE)))
    for entity in Entity.objects.all()[::3]:
        assert capped_admin_count(entity) == min(MIN_ADMINISTRATORS, counts[entity.address])


def test_a_single_remaining_administrator_is_named_and_two_are_enough():
    cast = create_sample_tenant()
    change_grants(
        grant=[
            ("user:dee", ORDERS, "ADMIN"),
            ("user:dee", "dataset:sales.customers", "ADMIN"),
            ("group:operators", "dataset:sales.customers", "ADMIN"),
        ]
    )
    loss = loss_if_removed(cast["ned"])
    assert (loss.without_admin_count, loss.one_admin_count, loss.max_checked) == (4, 1, 0)
    assert {str(row.address): row.remaining_admin for row in loss.entities}[ORDERS] == "dee"


def test_the_number_of_queries_does_not_grow_with_the_administered_entities(django_assert_max_num_queries):
    cast, operators = create_sample_tenant(), Group.objects.get(name="operators")
    change_grants(grant=[("group:operators", address, "ADMIN") for address in (SALARIES, ORDERS)])
    orders = entity_at(parse_address(ORDERS))
    for forecast_loss in (
        lambda: loss_if_removed(cast["ned"]),
        lambda: loss_if_removed(operators),
        lambda: loss_if_revoked(cast["ned"], orders),
        lambda: loss_if_revoked(operators, orders),
        lambda: loss_if_member_removed(cast["grp"], operators),
    ):
        with django_assert_max_num_queries(10):
            forecast_loss()
