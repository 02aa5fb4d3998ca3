"""The roles of `role-mining` give exactly the direct grants of active users on live entities, on random tenants."""

from collections import defaultdict

import pytest

from analytics.analyses import AnalysisError
from analytics.spark.analyses import role_mining
from entities.models import State
from tests.support.analyses import (
    SEEDS_AND_SIZES,
    SPARSE,
    active_users,
    run_analysis,
    sort_rows,
    sparse_tenant,
    tables_of,
    tenant_with_custom_kinds,
)
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("folder"),
]


def direct_grants(tenant, namespace=""):
    """Return {(user, entity, privilege)}."""
    users = {f"user:{name}": name for name in active_users(tenant)}
    return {
        (users[principal], str(address), str(privilege))
        for principal, address, privilege in tenant.grants
        if principal in users
        and tenant.entities[address] == State.LIVE
        and (not namespace or str(address.namespace) == f"namespace:{namespace}")
    }


def check_roles(tenant, tables, expected):
    """Check every table of a report against its detail, and the detail against the grants."""
    assert {row[1:] for row in tables["detail"]} == expected
    users, permissions = defaultdict(set), defaultdict(set)
    for role, user, entity, privilege in tables["detail"]:
        users[role].add(user)
        permissions[role].add((entity, privilege))
    assert tables["members"] == [(role, user) for role in sorted(users) for user in sort_names(users[role])]
    assert {(role, *permission) for role, held in permissions.items() for permission in held} == set(
        tables["permissions"]
    )
    active = set(active_users(tenant))
    groups = {name: active.intersection(members) for name, members in sorted(tenant.groups.items())}
    assert tables["rows"] == [
        (
            role,
            len(users[role]),
            len(permissions[role]),
            len(users[role]) * len(permissions[role]),
            next((name for name, members in groups.items() if members == users[role]), ""),
        )
        for role in range(1, len(users) + 1)
    ]
    covered = [row[3] for row in tables["rows"]]
    assert covered == sorted(covered, reverse=True)


def sort_names(names):
    return [name for (name,) in sort_rows([(name,) for name in names], 1)]


@pytest.mark.parametrize(("seed", "size"), SEEDS_AND_SIZES)
def test_roles_give_exactly_the_direct_grants(spark, own_kinds, monkeypatch, seed, size):
    monkeypatch.setattr("analytics.computation.SMALL_SNAPSHOT_BYTES", size)
    tenant = tenant_with_custom_kinds(seed)
    check_roles(tenant, tables_of("role-mining"), direct_grants(tenant))


@pytest.mark.parametrize("name", SPARSE)
def test_roles_of_a_tenant_in_which_a_part_is_missing(spark, folder, name):
    tenant = sparse_tenant(name)
    store_tenant(tenant)
    check_roles(tenant, tables_of("role-mining"), direct_grants(tenant))
    rows, detail = run_analysis(folder, "role-mining")
    assert bool(rows) == bool(detail) == bool(direct_grants(tenant))


def test_roles_of_one_namespace_give_its_direct_grants(spark):
    tenant = random_tenant(1)
    store_tenant(tenant)
    expected = direct_grants(tenant, "ns0")
    assert expected and expected != direct_grants(tenant)
    check_roles(tenant, tables_of("role-mining", namespace="ns0"), expected)


def test_more_grants_than_fit_into_memory_are_refused_with_what_to_do(spark, monkeypatch):
    monkeypatch.setattr(role_mining, "MAX_COLLECTED_GRANTS", 1)
    tenant = sparse_tenant("one user")
    tenant.users["bob"] = tenant.users["ann"]
    tenant.grants |= {("user:bob", *grant[1:]) for grant in tenant.grants}
    store_tenant(tenant)
    with pytest.raises(AnalysisError, match="2 direct grants .* choose a namespace"):
        tables_of("role-mining")
