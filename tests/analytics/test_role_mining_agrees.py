"""The roles of `role-mining` give exactly the direct grants of active users on live entities, on random tenants."""

import random
from collections import defaultdict
from datetime import timedelta

import pytest
from django.utils import timezone

from analytics.analyses import ANALYSES, AnalysisError
from analytics.runs.services import validated_options
from analytics.spark.analyses import role_mining
from analytics.spark.team_roles import team_roles
from entities.models import Entity, State
from entities.vocabulary import Privilege
from grants.history import as_of
from grants.journal import current_revision
from grants.models import User, UserGrant
from grants.policies.principals import ROLE_PREFIX
from grants.validity import at_time, in_force
from tests.analytics.test_drift_agrees import held_at
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
from tests.support.changes import (
    add_group,
    add_member,
    add_user,
    change_grants,
    register_entity,
    rename_user,
)
from tests.support.random_histories import begin_history, change_at_random
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
    check_tables(tenant, tables, expected)
    covered = [row[3] for row in tables["rows"]]
    assert covered == sorted(covered, reverse=True)


def check_tables(tenant, tables, direct):
    """Check every table of a report without surplus against its detail."""
    users, permissions = defaultdict(set), defaultdict(set)
    for role, user, entity, privilege in tables["detail"]:
        users[role].add(user)
        permissions[role].add((entity, privilege))
    assert tables["members"] == [(role, user) for role in sorted(users) for user in sort_names(users[role])]
    assert {(role, *permission) for role, held in permissions.items() for permission in held} == set(
        tables["permissions"]
    )
    active = set(active_users(tenant))
    groups = {
        name: active.intersection(members)
        for name, members in sorted(tenant.groups.items())
        if not name.startswith(ROLE_PREFIX)
    }
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
    check_coverage(tenant, tables, direct)


def check_coverage(tenant, tables, direct):
    """Check the table of coverage against the members and permissions."""
    users, permissions, covered, expected = defaultdict(set), defaultdict(set), set(), []
    for role, user in tables["members"]:
        users[role].add(user)
    for role, *permission in tables["permissions"]:
        permissions[role].add(tuple(permission))
    active = set(active_users(tenant))
    groups = {
        name: active.intersection(members)
        for name, members in tenant.groups.items()
        if not name.startswith(ROLE_PREFIX)
    }
    for role in sorted(users):
        given = {(user, *permission) for user in users[role] for permission in permissions[role]}
        covered |= given & direct
        shared = [
            (-len(users[role] & group), len(group), name)
            for name, group in groups.items()
            if users[role] & group
        ]
        most, members, team = min(shared, default=(0, 0, ""))
        expected.append(
            (role, len(users[role]), len(covered), len(direct), len(given - direct), team, -most, members)
        )
    assert tables["coverage"] == expected
    return covered


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


def test_an_existing_role_with_the_users_of_a_proposed_one_is_not_named_as_a_group(spark):
    tenant = sparse_tenant("one user")
    tenant.groups = {"role:all": ["ann"]}
    store_tenant(tenant, has_periods=False)
    tables = tables_of("role-mining")
    check_roles(tenant, tables, direct_grants(tenant))
    assert [row[-1] for row in tables["rows"]] == [""]


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


def share_grants(tenant, dice):
    """Give each user most of the direct grants of another one, so that there are roles of several users."""
    direct = sorted((grant for grant in tenant.grants if grant[0].startswith("user:")), key=str)
    for user in tenant.users:
        like = dice.choice(direct)[0]
        tenant.grants |= {
            (f"user:{user}", *what) for name, *what in direct if name == like and dice.random() < 0.9
        }


@pytest.mark.parametrize("surplus", ["", "0.2"])
@pytest.mark.parametrize("seed", range(3))
def test_roles_of_teams_are_those_of_the_function_and_their_tables_agree(spark, seed, surplus):
    tenant = random_tenant(seed)
    share_grants(tenant, random.Random(seed))
    store_tenant(tenant)
    tables, direct = tables_of("role-mining", prefer="teams", surplus=surplus), direct_grants(tenant)
    # ties are broken by the order of users and entities in the database
    names = [
        *User.objects.filter(username__in=active_users(tenant))
        .order_by("pk")
        .values_list("username", flat=True)
    ]
    entities = [str(entity.address) for entity in Entity.objects.order_by("pk")]
    held = defaultdict(set)
    for user, entity, privilege in direct:
        held[names.index(user)].add(
            entities.index(entity) * len(Privilege) + list(Privilege).index(privilege)
        )
    teams = [
        [names.index(user) for user in set(members) & {*names}]
        for _, members in sorted(tenant.groups.items())
    ]
    roles = team_roles(held, teams, surplus=float(surplus or 0))
    found = defaultdict(set)
    for role, user in tables["members"]:
        found[role].add(names.index(user))
    assert roles and {frozenset(users) for users in found.values()} == {role.users for role in roles}
    given = {
        (role, user, *permission)
        for role, user in tables["members"]
        for of_role, *permission in tables["permissions"]
        if of_role == role
    }
    assert {*tables["detail"]} == {row for row in given if row[1:] in direct}
    assert check_coverage(tenant, tables, direct) == {row[1:] for row in tables["detail"]}
    assert [row[3] for row in tables["rows"]] == [
        sum(row[0] == role for row in tables["detail"]) for role in range(1, len(roles) + 1)
    ]
    if not surplus:
        check_tables(tenant, tables, direct)


@pytest.mark.parametrize("seed", [1, 2])
def test_roles_of_teams_are_made_of_what_users_held_at_both_dates(spark, seed):
    dice = random.Random(seed)
    begin_history(dice)
    for name in ("ann", "bob", "eve"):
        add_user(name)
    add_group("crew")
    add_member("eve", "crew")
    shared = [f"dataset:c.shared{number}" for number in range(8)]
    for address in ["namespace:c", *shared]:
        register_entity(address)
    # at the earlier date, all three hold `early`, eve holds `moved` through a group, and nobody holds the rest
    early, moved = shared[:3], shared[3:6]
    change_grants(
        grant=[
            *((f"user:{user}", address, "READ") for user in ("ann", "bob", "eve") for address in early),
            *((f"user:{user}", address, "READ") for user in ("ann", "bob") for address in moved),
            *(("group:crew", address, "READ") for address in moved),
        ]
    )
    first, at = current_revision(), timezone.now()
    for _ in range(10):
        change_at_random(dice)
    # the random changes revoke some of these
    change_grants(revoke=[("user:ann", early[0], "READ")])
    change_grants(
        grant=[(f"user:{user}", address, "READ") for user in ("ann", "bob", "eve") for address in shared]
    )
    rename_user(name="bob", new_name="bo")
    with as_of(current_revision()):
        names = dict(User.objects.active_principals().values_list("pk", "username"))
    then = held_at(first, names)
    with at_time(at + timedelta(days=5)):
        now = {
            (grant.user.username, str(grant.content_object), str(grant.privilege))
            for grant in UserGrant.objects.filter(
                **in_force(), user__is_active=True, user__is_principal=True, content_object__state=State.LIVE
            ).select_related("user", "content_object")
        }
        tables = tables_of("role-mining", prefer="teams", stable_days="5")
        with pytest.raises(AnalysisError, match="enter one from 1 to 5, or leave it out"):
            tables_of("role-mining", prefer="teams", stable_days="6")
    expected = {(user, address, "READ") for user in ("ann", "bo", "eve") for address in [*early, *moved]}
    assert expected <= {row[1:] for row in tables["detail"]} <= now & then
    # of all direct grants that were held then, also those that no role gives
    assert tables["coverage"][0][3] == len(now & then)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefer": "few"}, "enter fewest or teams"),
        ({"surplus": "0.1"}, "set prefer to teams"),
        ({"prefer": "teams", "surplus": "0.6"}, "from 0 to 0.5"),
        ({"prefer": "teams", "surplus": "x"}, "is not a share"),
        ({"prefer": "teams", "stable_days": "1"}, "the journal is less than a day old"),
    ],
)
def test_options_of_roles_are_checked(options, message):
    with pytest.raises(AnalysisError, match=message):
        validated_options(ANALYSES["role-mining"], options)


@pytest.mark.parametrize(
    ("prefer", "days", "message"),
    [
        *(
            ("teams", days, "enter one from 1 to 3, or leave")
            for days in ("-1", "x", "4", "99999", "0000000059999", "9" * 30)
        ),
        ("fewest", "3", "set prefer to teams"),
    ],
)
def test_only_days_that_the_journal_covers_can_be_asked_about(prefer, days, message):
    add_group("crew")
    with at_time(timezone.now() + timedelta(days=3, hours=1)), pytest.raises(AnalysisError, match=message):
        validated_options(ANALYSES["role-mining"], {"prefer": prefer, "stable_days": days})
