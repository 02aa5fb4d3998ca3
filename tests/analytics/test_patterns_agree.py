"""The analysis of patterns equals a plain computation on random tenants."""

import random
from datetime import timedelta

import pytest
from django.utils import timezone

from analytics.tables import SURPLUS, SURPLUS_NARROWER
from entities.address import Address, parse_address, parse_grantable
from entities.models import Entity, State
from entities.patterns import matches, reveals
from entities.vocabulary import Privilege
from grants.usage import UsageRecord, add_usage
from tests.support.analyses import (
    SEEDS_AND_SIZES,
    SPARSE,
    active_users,
    live_addresses,
    sort_rows,
    sparse_tenant,
    tables_of,
)
from tests.support.changes import add_group, add_member, add_user, change_grants, register_entity
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("folder"),
]


def use(user, address, days_ago=0):
    add_usage(
        [UsageRecord(user, address.kind, address.key, timezone.now().date() - timedelta(days=days_ago))]
    )


def users_of(tenant, principal):
    return [user for user in active_users(tenant) if principal in tenant.holders("user", user)]


def expected_rows(tenant, last, new):
    """Return the rows. last: the last day of use by user and address. new: the addresses registered after the grants."""
    rows, live = [], live_addresses(tenant)
    for principal, pattern, privilege in tenant.patterns:
        if principal.startswith("user:") and not users_of(tenant, principal):
            continue
        others = [
            other
            for holder, other, held in tenant.patterns
            if (holder, held) == (principal, privilege) and other != pattern
        ]
        given = [address for address in live if matches(pattern, address)]
        used = used_days(tenant, principal, last, given)
        containing = sorted(
            (
                str(other)
                for other in others
                if is_inside(pattern.key, other.key) and other.kind == pattern.kind
            ),
            key=str.encode,
        )
        rows.append(
            (
                principal,
                str(pattern),
                str(privilege),
                sum(matches(pattern, address) for address in tenant.entities),
                len(given),
                sum(
                    (principal, address, privilege) not in tenant.grants
                    and not any(matches(other, address) for other in others)
                    for address in given
                ),
                len(given) - len(used) if last else None,
                sum(address in new for address in given),
                str(max(used.values(), default="")),
                containing[0] if containing else "",
                pattern.key.startswith("*") and reveals(pattern, Address("namespace", "any")),
            )
        )
    return sort_rows(rows, 3)


def used_days(tenant, principal, last, addresses):
    """Return the last day on which an active user of the principal used each of these addresses, or something inside it."""
    users, days = users_of(tenant, principal), {}
    for (user, used), day in last.items():
        for address in {used, *used.ancestors} & set(addresses) if user in users else ():
            days[address] = max(day, days.get(address, day))
    return days


def is_inside(inner, outer):
    """Return whether a pattern contains another one, by comparing them from their begin."""
    if not outer:
        return not inner
    if outer[0] == "*":
        return is_inside(inner, outer[1:]) or (inner != "" and is_inside(inner[1:], outer))
    return (
        bool(inner)
        and (outer[0] == inner[0] or (outer[0] == "?" and inner[0] != "*"))
        and is_inside(inner[1:], outer[1:])
    )


def check_narrower(tenant, last, tables):
    """The narrower patterns are inside the pattern, match all of it that was used, and give no more than it does."""
    unused = {row[:3]: row[6] for row in tables["rows"]}
    live, by_grant = live_addresses(tenant), {}
    for principal, pattern, privilege, narrower, entities, used in tables["narrower"]:
        found = parse_grantable(narrower)
        assert narrower != pattern and is_inside(found.key, parse_grantable(pattern).key)
        given = [address for address in live if address == found or matches(found, address)]
        assert len(given) == entities
        assert len(used_days(tenant, principal, last, given)) == used > 0
        by_grant.setdefault((principal, pattern, privilege), set()).update(given)
    for (principal, pattern, privilege), given in by_grant.items():
        assert unused[principal, pattern, privilege] > 0
        all_given = [address for address in live if matches(parse_grantable(pattern), address)]
        assert used_days(tenant, principal, last, all_given).keys() <= given <= set(all_given)


@pytest.mark.parametrize(("seed", "size"), SEEDS_AND_SIZES, indirect=["size"])
def test_what_grants_on_patterns_give_and_what_of_it_is_used(spark, seed, size):
    tenant, dice = random_tenant(seed, has_patterns=True, has_roles=True), random.Random(seed)
    store_tenant(tenant)
    new = set(dice.sample(sorted(tenant.entities, key=str), 10))
    Entity.objects.update(created_at=timezone.now() - timedelta(days=2))
    for address in new:
        Entity.objects.filter(kind=address.kind, key=address.key).update(
            created_at=timezone.now() + timedelta(hours=1)
        )
    last = {}
    for user in tenant.users:
        for address in live_addresses(tenant):
            if dice.random() < 0.2:
                use(user, address, days_ago := dice.randrange(50))
                last[user, address] = timezone.now().date() - timedelta(days=days_ago)
    tables = tables_of("patterns")
    assert tables["rows"] == expected_rows(tenant, last, new) != []
    check_narrower(tenant, last, tables)
    kinds = {}
    for _, pattern, _, matching, entities, only, unused, *_ in tables["rows"]:
        row = kinds.setdefault(pattern.partition(":")[0], [set(), 0, 0, 0, 0, 0])
        row[0].add(pattern)
        row[1:] = [
            before + more
            for before, more in zip(row[1:], (1, matching == 0, entities, only, unused), strict=True)
        ]
    assert tables["kinds"] == sort_rows(
        [(kind, len(patterns), *numbers) for kind, (patterns, *numbers) in kinds.items()], 1
    )


@pytest.mark.parametrize("name", SPARSE)
def test_a_tenant_without_patterns_has_no_rows(spark, name):
    store_tenant(sparse_tenant(name))
    assert tables_of("patterns") == {"rows": [], "narrower": [], "kinds": []}


def narrower(*patterns, used, entities):
    """Return the rows of the narrower patterns of a group that used these addresses."""
    add_user("ada")
    add_group("analysts")
    add_member("ada", "analysts")
    addresses = list(map(parse_address, (*entities, *used)))
    for address in [*dict.fromkeys(address.namespace for address in addresses), *addresses]:
        register_entity(address)
    change_grants(grant=[("group:analysts", pattern, "READ") for pattern in patterns])
    for address in used:
        use("ada", parse_grantable(address))
    tables = tables_of("patterns")
    columns = SURPLUS_NARROWER.column_names[1:2] + SURPLUS_NARROWER.column_names[3:]
    assert columns == ("pattern", "narrower", "entities", "used")
    return [(row[1], *row[3:]) for row in tables["narrower"]], [
        dict(zip(SURPLUS.column_names, row, strict=True)) for row in tables["rows"]
    ]


def test_there_is_one_narrower_pattern_for_each_namespace(spark):
    rows, (surplus,) = narrower(
        "dataset:*",
        used=["dataset:a.orders_1", "dataset:a.orders_2", "dataset:b.one"],
        entities=["dataset:a.other", "dataset:a.orders_3", "dataset:c.two"],
    )
    assert rows == [("dataset:*", "dataset:a.orders_*", 3, 2), ("dataset:*", "dataset:b.one", 1, 1)]
    assert (surplus["entities"], surplus["unused"], surplus["reveals_all"]) == (6, 3, True)


@pytest.mark.parametrize(
    ("pattern", "used", "other", "expected"),
    [
        ("dataset:a.*aa", ["dataset:a.aa", "dataset:a.aaa"], "dataset:a.baa", []),
        (
            "dataset:b.*ab",
            ["dataset:b.aab", "dataset:b.acab"],
            "dataset:b.cab",
            [("dataset:b.*ab", "dataset:b.a*ab", 2, 2)],
        ),
    ],
)
def test_the_end_of_the_pattern_stays_and_does_not_overlap(spark, pattern, used, other, expected):
    assert narrower(pattern, used=used, entities=[other])[0] == expected


def test_a_pattern_with_several_wildcards_is_narrowed_to_the_used_addresses(spark):
    rows, _ = narrower(
        "dataset:?.*s",
        used=["dataset:a.orders", "dataset:a.customers"],
        entities=["dataset:a.users", "dataset:a.other"],
    )
    assert rows == [
        ("dataset:?.*s", "dataset:a.customers", 1, 1),
        ("dataset:?.*s", "dataset:a.orders", 1, 1),
    ]


def test_without_records_of_use_nothing_is_unused_or_narrower(spark):
    rows, (surplus, nothing) = narrower("dataset:*", "stream:x.*", used=[], entities=["dataset:a.one"])
    assert rows == [] and surplus["unused"] is nothing["unused"] is None
    assert (surplus["matches"], nothing["matches"]) == (1, 0)


def test_a_pattern_inside_another_one_names_it(spark):
    _, rows = narrower("dataset:a*", "dataset:a.?x*", "dataset:a.b*", used=[], entities=["dataset:a.bx"])
    assert {row["pattern"]: (row["inside"], row["only"]) for row in rows} == {
        "dataset:a*": ("", 0),
        "dataset:a.?x*": ("dataset:a*", 0),
        "dataset:a.b*": ("dataset:a*", 0),
    }
    assert Entity.objects.filter(state=State.LIVE, kind="dataset").count() == 1
    assert {row["privilege"] for row in rows} == {Privilege.READ}
