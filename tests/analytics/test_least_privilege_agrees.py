"""The analyses of what users hold, and a plain reference, agree on random tenants, with periods and in which a part is
missing.
"""

import random
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from analytics.analyses import ANALYSES, AnalysisError
from analytics.runs.services import validated_options
from entities.address import instance_address, parse_address
from entities.models import State
from entities.vocabulary import Privilege
from grants.models import UserGrant
from grants.plans.sources.redundant import redundant_grants, redundant_memberships
from grants.policies.principals import ROLE_PREFIX, group_text
from grants.validity import Validity
from tests.support.analyses import (
    SEEDS_AND_SIZES,
    SPARSE,
    active_users,
    held_privileges,
    run_analysis,
    sort_rows,
    sparse_tenant,
    tables_of,
    tenant_with_custom_kinds,
)
from tests.support.random_tenants import Tenant, TimedTenant, random_timed_tenant, store_tenant

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("folder"),
]
NEVER = datetime.max.replace(tzinfo=UTC)


def expected_blast_radius(tenant):
    held = held_privileges(tenant)
    counts = {}
    for user, address, privilege in held:
        key = user, address.kind, privilege
        counts[key] = counts.get(key, 0) + 1
    return (
        sort_rows([(*key, count) for key, count in counts.items()], 3),
        sort_rows([(user, str(address), privilege) for user, address, privilege in held], 3),
    )


def expected_people(tenant):
    people = {}
    for user, address, privilege in held_privileges(tenant):
        held = people.setdefault(user, [set(), set(), set(), [], [], [], []])
        held[0].add(address)
        held[1] |= {address} if privilege != "READ" else set()
        held[2] |= {address.namespace} if address.namespace else set()
        held[3 + list(Privilege).index(privilege)].append(address)
    return sort_rows([(user, *map(len, held)) for user, held in people.items()], 1)


@pytest.mark.parametrize(("seed", "size"), SEEDS_AND_SIZES, indirect=["size"])
def test_the_blast_radius_is_what_users_hold_directly_and_through_groups(spark, own_kinds, seed, size):
    tenant = tenant_with_custom_kinds(seed)
    tables = tables_of("blast-radius")
    assert (tables["rows"], tables["detail"]) == expected_blast_radius(tenant) and tables["rows"]
    assert tables["people"] == expected_people(tenant)
    by_user = {}
    for user, namespace, entities, changeable in tables["namespaces"]:
        assert 0 <= changeable <= entities and entities
        totals = by_user.setdefault(user, [0, 0, 0])
        by_user[user] = [totals[0] + entities, totals[1] + changeable, totals[2] + bool(namespace)]
    assert by_user == {row[0]: list(row[1:4]) for row in tables["people"]}


@pytest.mark.parametrize("name", SPARSE)
def test_the_blast_radius_of_a_tenant_in_which_a_part_is_missing(spark, folder, name):
    tenant = sparse_tenant(name)
    store_tenant(tenant, has_periods=False)
    assert tuple(run_analysis(folder, "blast-radius")) == expected_blast_radius(tenant)
    assert tables_of("blast-radius")["people"] == expected_people(tenant)


def redundancies(timed, at):
    """Return {(user, address, privilege): the groups that give it too, for as long as the direct grant}."""
    tenant, found = timed.at(at), {}

    def end(key):
        return timed.periods[key].valid_until or NEVER

    for user in active_users(tenant):
        for principal, address, privilege in tenant.grants:
            if principal != f"user:{user}" or tenant.entities[address] != State.LIVE:
                continue
            through = [
                group_text(group)
                for group, members in tenant.groups.items()
                if user in members
                and (group_text(group), address, privilege) in tenant.grants
                and min(end((user, group)), end((group_text(group), address, privilege)))
                >= end((principal, address, privilege))
            ]
            if through:
                found[user, address, privilege] = through
    return found


def expected_memberships(timed, at):
    """Return the memberships without effect, by comparing every pair of groups of every user."""
    tenant, rows = timed.at(at), []
    given = {
        group: {
            (address, privilege): timed.periods[principal, address, privilege].valid_until or NEVER
            for principal, address, privilege in tenant.grants
            if principal == group_text(group) and tenant.entities[address] != State.DELETED
        }
        for group in tenant.groups
    }

    def covers(other, group):
        return all(
            given[other].get(key, datetime.min.replace(tzinfo=UTC)) >= end
            for key, end in given[group].items()
        )

    for user in active_users(tenant):
        ends = {
            group: timed.periods[user, group].valid_until or NEVER
            for group, members in tenant.groups.items()
            if user in members
        }
        for group, end in ends.items():
            others = [
                other
                for other, other_end in ends.items()
                if other != group
                and covers(other, group)
                and other_end >= end
                and (not covers(group, other) or other_end > end or other < group)
            ]
            if not given[group]:
                rows.append((user, group, ""))
            elif others:
                rows.append((user, group, group_text(min(others))))
    return sort_rows(rows, 2)


def without_periods(tenant):
    keys = [*tenant.grants, *((user, group) for group, members in tenant.groups.items() for user in members)]
    return TimedTenant(tenant, dict.fromkeys(keys, Validity()), [])


def check_redundant(timed):
    now, tables = timezone.now(), tables_of("redundant")
    found = redundancies(timed, now)
    assert tables["rows"] == sort_rows(
        [
            (f"user:{user}", str(address), str(privilege), min(through))
            for (user, address, privilege), through in found.items()
        ],
        3,
    )
    counts = {}
    for principal, *_, through in tables["rows"]:
        counts.setdefault(through, []).append(principal)
    assert tables["groups"] == sort_rows(
        [(through, len(users), len(set(users))) for through, users in counts.items()], 1
    )
    assert tables["memberships"] == expected_memberships(timed, now)
    tenant = timed.at(now)
    inactive = {f"user:{name}" for name, standing in tenant.users.items() if standing == (False, True)}
    assert tables["inactive"] == sort_rows(
        [
            (principal, str(address), str(privilege), tenant.entities[address])
            for principal, address, privilege in tenant.grants
            if principal in inactive
        ],
        3,
    )
    return tables


@pytest.mark.parametrize(("seed", "size"), SEEDS_AND_SIZES, indirect=["size"])
def test_redundant_access_is_what_other_access_gives_for_as_long(spark, seed, size):
    timed = random_timed_tenant(seed + 10)
    store_tenant(timed.tenant, timed.periods)
    check_redundant(timed)


@pytest.mark.parametrize("name", SPARSE)
def test_redundant_access_of_a_tenant_in_which_a_part_is_missing(spark, name):
    tenant = sparse_tenant(name)
    store_tenant(tenant, has_periods=False)
    check_redundant(without_periods(tenant))


def test_a_group_of_which_the_grant_ends_sooner_makes_no_direct_grant_redundant(spark, folder):
    tenant, (address,) = sparse_tenant("no grants"), [parse_address("dataset:sales.orders")]
    direct, through = (("user:ann", address, Privilege.READ), ("group:staff", address, Privilege.READ))
    tenant.grants |= {direct, through}
    timed, tomorrow = without_periods(tenant), timezone.now().replace(microsecond=0) + timedelta(days=1)
    timed.periods[through] = Validity(None, tomorrow)
    store_tenant(tenant, timed.periods)
    assert run_analysis(folder, "redundant", detail=False) == [[]] and not redundant_grants().exists()
    UserGrant.objects.update(valid_until=tomorrow)
    # the snapshot of the same revision is reused
    shutil.rmtree(folder / "snapshots")
    row = ("user:ann", str(address), "READ", "group:staff")
    assert run_analysis(folder, "redundant", detail=False) == [[row]] and redundant_grants().exists()


def test_memberships_that_follow_from_each_other_are_in_neither_the_report_nor_the_plan(spark, folder):
    tenant, address = sparse_tenant("no grants"), parse_address("dataset:sales.orders")
    tenant.groups |= {"empty": ["ann"], "in role": ["ann"], "role:readers": []}
    tenant.role_groups, tenant.role_users = {"role:readers": ["in role"]}, {"role:readers": ["ann"]}
    tenant.expand_roles()
    tenant.grants |= {("role:readers", address, Privilege.READ), ("user:ann", address, Privilege.READ)}
    store_tenant(tenant, has_periods=False)
    rows = run_analysis(folder, "redundant", detail=False)
    assert rows == [[("user:ann", str(address), "READ", "role:readers")]]
    reported = {(user, group) for user, group, _ in tables_of("redundant")["memberships"]}
    planned = redundant_memberships().values_list("user__username", "group__name")
    assert reported == set(planned) and ("ann", "empty") in reported
    assert reported.isdisjoint({("ann", "in role"), ("ann", "role:readers")})


def group_tenant(seed):
    """Return a tenant with groups of up to twelve members and a role, inactive users among them, and few grants."""
    dice = random.Random(seed)
    entities = {instance_address(): State.LIVE, parse_address("namespace:sales"): State.LIVE} | {
        parse_address(f"dataset:sales.d{number}"): dice.choice([*State.values, State.LIVE])
        for number in range(12)
    }
    users = {f"user {number:02}": (dice.random() < 0.85, True) for number in range(14)}
    groups = {
        f"group {number}": [user for user in users if dice.random() < share]
        for number, share in enumerate((0.9, 0.7, 0.5, 0.5, 0.2, 0))
    } | {"role:large": [user for user in users if dice.random() < 0.7]}
    principals = [f"user:{name}" for name in users] + [group_text(name) for name in groups]
    grants = {
        (principal, address, privilege)
        for principal in principals
        for address in entities
        for privilege in Privilege
        if dice.random() < 0.06
    }
    return Tenant(entities, users, groups, grants)


def expected_outliers(tenant, share):
    held, rows = held_privileges(tenant), []
    for group, members in tenant.groups.items():
        active = [user for user in members if user in active_users(tenant)]
        if len(active) < 5 or group.startswith(ROLE_PREFIX):
            continue
        for user, address, privilege in held:
            holders = sum((member, address, privilege) in held for member in active)
            if (
                user in active
                and (group_text(group), address, privilege) not in tenant.grants
                and holders <= share * len(active) + 1e-9
            ):
                rows.append((user, group, str(address), privilege, holders, len(active)))
    return sort_rows(rows, 4)


@pytest.mark.parametrize(("seed", "size"), SEEDS_AND_SIZES, indirect=["size"])
@pytest.mark.parametrize("share", ["", "0.4", "1"])
def test_outliers_are_held_by_few_members_and_not_through_the_group(spark, seed, size, share):
    tenant = group_tenant(seed)
    store_tenant(tenant)
    tables = tables_of("outliers", share=share)
    rows = expected_outliers(tenant, float(share or "0.2"))
    assert tables["rows"] == rows and rows
    assert {row[0] for row in tables["people"]} == {row[0] for row in rows}
    assert {row[0]: row[3] for row in tables["groups"]} == Counter(row[1] for row in rows)


def test_outliers_of_one_namespace_are_about_its_entities(spark):
    tenant = group_tenant(1)
    store_tenant(tenant)
    expected = expected_outliers(tenant, 1)
    inside = [row for row in expected if row[2] != str(instance_address())]
    assert inside and inside != expected
    assert tables_of("outliers", share="1", namespace="sales")["rows"] == inside


@pytest.mark.parametrize("name", SPARSE)
def test_a_tenant_in_which_a_part_is_missing_has_no_outliers(spark, name):
    store_tenant(sparse_tenant(name), has_periods=False)
    assert set(map(tuple, tables_of("outliers").values())) == {()}


@pytest.mark.parametrize("share", ["0", "1.01", "-0.2", "20%", "nan", "1e-3", "0,2"])
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(AnalysisError, match="above 0 and up to 1"):
        validated_options(ANALYSES["outliers"], {"share": share})
