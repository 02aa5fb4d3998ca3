"""Spark and a plain reference agree on random tenants, on every decision and on every table of every
analysis.
"""

import pytest

from analytics.snapshots.snapshot import lease_snapshot
from analytics.spark.engine import PairTable, evaluate_rules
from analytics.spark.engine.rules import generation_rules, visibility_rules
from analytics.spark.schemas import read_snapshot
from analytics.tables import IMPACT_DETAIL
from entities.models import State
from entities.vocabulary import KINDS
from grants.policies.catalogue import GENERATIONS
from grants.policies.principals import group_text
from grants.policies.question import Question
from tests.support.analyses import (
    LARGE,
    SEEDS,
    SEEDS_AND_SIZES,
    SMALL,
    active_users,
    live_addresses,
    lower_limits,
    run_analysis,
    sort_rows,
    tenant_with_custom_kinds,
)
from tests.support.random_tenants import random_tenant, reference_is_permitted, store_tenant

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("folder"),
]


def permissions(tenant, generation):
    """Return every (user, address, operation) of active users and live entities that the generation permits."""
    return {
        (user, str(address), operation)
        for user in active_users(tenant)
        for address in live_addresses(tenant)
        for operation in KINDS[address.kind].operations
        if reference_is_permitted(tenant, Question("user", user, operation, address, generation))
    }


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(("seed", "is_small"), [*((seed, True) for seed in SEEDS), (len(SEEDS), False)])
def test_every_decision_of_every_generation_equals_the_reference(
    spark, own_kinds, monkeypatch, seed, generation, is_small
):
    if not is_small:
        lower_limits(monkeypatch)
    tenant = tenant_with_custom_kinds(seed, has_later_kinds=True)
    with lease_snapshot() as snapshot:
        tables = read_snapshot(spark, snapshot.uri, is_small=is_small)
        no_counts = spark.createDataFrame([], "name string, pairs long")
        pairs = evaluate_rules(
            tables, generation_rules(generation), PairTable(IMPACT_DETAIL, no_counts)
        ).frame.collect()
    assert all(pair["after"] for pair in pairs)
    permitted = [(pair["user"], pair["entity"], pair["operation"]) for pair in pairs]
    assert len(permitted) == len(set(permitted))
    assert set(permitted) == permissions(tenant, generation)


def visibility_cases():
    """Return (seed, size, generation) of all generations; with the settings of a large tenant, one for each
    set of rules.
    """
    first_with_rules = {visibility_rules(generation): generation for generation in reversed(GENERATIONS)}
    return [
        (seed, size, generation)
        for seed, size in SEEDS_AND_SIZES
        for generation in GENERATIONS
        if size == SMALL or generation in first_with_rules.values()
    ]


@pytest.mark.parametrize(("seed", "size", "generation"), visibility_cases(), indirect=["size"])
def test_visibility_counts_the_entities_that_list_permits(spark, own_kinds, folder, seed, size, generation):
    tenant = tenant_with_custom_kinds(seed, has_later_kinds=True)
    pairs = {
        (user, address)
        for user in active_users(tenant)
        for address in live_addresses(tenant)
        if "list" in KINDS[address.kind].operations
        and reference_is_permitted(tenant, Question("user", user, "list", address, generation))
    }
    counts = {}
    for user, address in pairs:
        key = user, address.kind, address.namespace.key if address.namespace else ""
        counts[key] = counts.get(key, 0) + 1
    rows, detail = run_analysis(folder, "visibility", "--generation", generation)
    assert rows == sort_rows([(*key, count) for key, count in counts.items()], 3)
    assert detail == sort_rows([(user, str(address)) for user, address in pairs], 2)


@pytest.mark.parametrize(
    ("before", "after", "size"),
    [
        ("existing", "final", SMALL),
        ("final", "existing", SMALL),
        ("core", "proposed", SMALL),
        ("existing", "proposed", SMALL),
        ("proposed", "core", SMALL),
        ("final", "cdap65", SMALL),
        ("cdap65", "final", SMALL),
        ("existing", "final", LARGE),
        ("proposed", "core", LARGE),
    ],
    indirect=["size"],
)
def test_policy_impact_counts_the_decisions_that_change(spark, own_kinds, folder, before, after, size):
    tenant = tenant_with_custom_kinds(len(before + after), has_later_kinds=True)
    comparable = {
        (kind.name, operation)
        for kind in KINDS.values()
        for operation in kind.operations
        if all(GENERATIONS[name].policy(kind.name, operation).has_rule for name in (before, after))
    }
    permitted_before, permitted_after = permissions(tenant, before), permissions(tenant, after)
    changed = [
        (*permission, permission in permitted_before, permission in permitted_after)
        for permission in permitted_before ^ permitted_after
        if (permission[1].partition(":")[0], permission[2]) in comparable
    ]
    counts = {}
    for user, address, operation, _, is_gained in changed:
        gained, lost = counts.get((user, address.partition(":")[0], operation), (0, 0))
        counts[user, address.partition(":")[0], operation] = gained + is_gained, lost + (not is_gained)
    rows, detail = run_analysis(folder, "policy-impact", "--generation", before, "--to-generation", after)
    assert rows == sort_rows([(*key, *gained_and_lost) for key, gained_and_lost in counts.items()], 3) != []
    assert detail == sort_rows(changed, 3)


@pytest.mark.parametrize(("seed", "size"), SEEDS_AND_SIZES, indirect=["size"])
def test_ghost_grants_are_the_grants_on_addresses_that_are_not_live(spark, folder, seed, size):
    tenant = random_tenant(seed, has_roles=True)
    store_tenant(tenant)
    listed_principals = {f"user:{name}" for name in active_users(tenant)} | {
        group_text(name) for name in tenant.groups
    }
    ghosts = [
        (principal, str(address), privilege.value, tenant.entities[address], "")
        for principal, address, privilege in tenant.grants
        if tenant.entities[address] != State.LIVE and principal in listed_principals
    ]
    assert run_analysis(folder, "ghost-grants", detail=False) == [sort_rows(ghosts, 3)]


@pytest.mark.parametrize(("seed", "size"), SEEDS_AND_SIZES, indirect=["size"])
def test_stranded_entities_have_fewer_than_two_active_administrators(spark, own_kinds, folder, seed, size):
    tenant = tenant_with_custom_kinds(seed, has_later_kinds=True)
    stranded = []
    for address in live_addresses(tenant):
        admins = [
            user
            for user in active_users(tenant)
            if reference_is_permitted(tenant, Question("user", user, "ADMIN", address, "final"))
        ]
        if len(admins) < 2:
            stranded.append((str(address), len(admins), "".join(admins)))
    assert run_analysis(folder, "stranded", detail=False) == [sort_rows(stranded, 1)]
