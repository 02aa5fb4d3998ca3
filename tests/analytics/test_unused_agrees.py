"""The analysis of unused access and a plain reference agree on random tenants with random records of use."""

import random
from datetime import timedelta

import pytest
from django.utils import timezone

from analytics.analyses import ANALYSES, AnalysisError
from analytics.runs.services import validated_options
from entities.models import State
from grants.models import GroupGrant, UserGrant
from grants.usage.storage import UsageRecord, add_usage
from tests.support.analyses import (
    SEEDS_AND_SIZES,
    SPARSE,
    active_users,
    live_addresses,
    run_analysis,
    sort_rows,
    sparse_tenant,
    tables_of,
)
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("folder"),
]
WINDOW = 30


def today():
    return timezone.now().date()


def record_random_uses(tenant, seed, *, addresses=None):
    """Record uses of about a half of the entities by each user, the first one 80 days ago. Return {(user, address): the
    last day}. addresses: of the entities; by default all that are live.
    """
    dice, last, addresses = random.Random(seed), {}, addresses or live_addresses(tenant)
    first = next(iter(tenant.users)), addresses[0], today() - timedelta(days=80)
    add_usage([UsageRecord(first[0], first[1].kind, first[1].key, first[2])])
    last[first[:2]] = first[2]
    for user in tenant.users:
        for address in addresses:
            for _ in range(dice.choice((0, 0, 1, 2))):
                day = today() - timedelta(days=dice.choice((0, 1, WINDOW - 1, WINDOW, WINDOW + 1, 80)))
                add_usage([UsageRecord(user, address.kind, address.key, day)])
                last[user, address] = max(day, last.get((user, address), day))
    return last


def expected(tenant, last, since, at):
    """Return tables. since: the first day of the window; None if there is none."""

    def unused(day):
        return since is not None and (day is None or day < since)

    rows, grants = [], []
    for principal, address, privilege in tenant.grants:
        if tenant.entities[address] != State.LIVE:
            continue
        users = [user for user in active_users(tenant) if principal in tenant.holders("user", user)]
        days = [last.get((user, address)) for user in users]
        rows += [
            (user, str(address), str(privilege), principal, at, str(day or ""))
            for user, day in zip(users, days, strict=True)
            if unused(day)
        ]
        newest = max(filter(None, days), default=None)
        if users and unused(newest):
            grants.append((principal, str(address), str(privilege), at, len(users), str(newest or "")))
    people = {}
    for user, address, privilege, *_ in rows:
        people.setdefault(user, set()).add((address, privilege))
    return {
        "rows": sort_rows(rows, 4),
        "grants": sort_rows(grants, 3),
        "people": sort_rows(
            [(user, len({address for address, _ in held}), len(held)) for user, held in people.items()], 1
        ),
    }


def set_grant_times():
    """Set the time of all grants, and return it as an analysis writes it."""
    moment = timezone.now().replace(microsecond=0) - timedelta(days=100)
    for model in (UserGrant, GroupGrant):
        model.objects.update(granted_at=moment)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def check_unused(tenant, last, begin, **options):
    """begin: the first day of the window; None if there is none."""
    at, tables = set_grant_times(), tables_of("unused", **options)
    wanted = expected(tenant, last, begin, at)
    assert {name: tables[name] for name in wanted} == wanted
    return tables


@pytest.mark.parametrize(("seed", "size"), SEEDS_AND_SIZES, indirect=["size"])
def test_unused_access_has_no_use_in_the_window(spark, seed, size):
    tenant = random_tenant(seed)
    store_tenant(tenant)
    last, since = record_random_uses(tenant, seed), today() - timedelta(days=WINDOW)
    tables = check_unused(tenant, last, since, since=str(WINDOW))
    assert tables["rows"] and tables["coverage"] == [
        (str(today() - timedelta(days=80)), str(since), 80, WINDOW)
    ]


@pytest.mark.parametrize("name", SPARSE)
def test_unused_access_of_a_tenant_in_which_a_part_is_missing(spark, name):
    tenant = sparse_tenant(name)
    store_tenant(tenant, has_periods=False)
    assert check_unused(tenant, {}, None)["coverage"] == [("", "", 0, 0)]
    if tenant.users:
        last = record_random_uses(tenant, 0, addresses=list(tenant.entities))
        check_unused(tenant, last, today() - timedelta(days=WINDOW), since=str(WINDOW))


def test_nothing_is_unused_before_the_records_begin(spark, folder):
    tenant = sparse_tenant("one user")
    store_tenant(tenant, has_periods=False)
    ((user, address, _),) = tenant.grants
    name, first = user.removeprefix("user:"), today() - timedelta(days=10)
    with pytest.raises(AnalysisError, match="no use is recorded"):
        validated_options(ANALYSES["unused"], {"since": "5"})
    assert run_analysis(folder, "unused", detail=False) == [[]]
    # a new use has no journal line, but the next run finds it
    add_usage([UsageRecord(name, address.kind, address.key, first)])
    check_unused(tenant, {(name, address): first}, first)
    assert run_analysis(folder, "unused", "--since", "9", detail=False)[0] != []
    with pytest.raises(
        AnalysisError, match="which is 10 days, so nothing is known to be unused for 11: enter at most 10"
    ):
        validated_options(ANALYSES["unused"], {"since": "11"})


@pytest.mark.parametrize("days", ["0", "-1", "1.5", "ten", "801", "9" * 30])
def test_a_window_out_of_range_is_refused(days):
    with pytest.raises(AnalysisError, match="enter one from 1 to 800"):
        validated_options(ANALYSES["unused"], {"since": days})
