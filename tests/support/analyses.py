"""Run analyses on random tenants, and the parts of their references: loops over the tenant in memory."""

import json
import random

from django.core.management import call_command

from analytics import computation
from analytics.analyses import ANALYSES
from analytics.results.read import result_batches
from analytics.runs import execution
from analytics.runs.services import validated_options
from analytics.spark import user_grants
from analytics.spark.engine import bits, encode, sums, units
from analytics.spark.engine import pairs as engine_pairs
from entities.address import instance_address, parse_address
from entities.models import State
from entities.vocabulary import Privilege
from grants.policies.principals import group_text
from grants.policies.question import Question
from tests.support.random_tenants import Tenant, random_tenant, reference_is_permitted, store_tenant

SEEDS = range(3)
SMALL, LARGE = computation.SMALL_SNAPSHOT_BYTES, 0
# computing the same tables with the settings of a large tenant takes several times as long
SEEDS_AND_SIZES = [*((seed, SMALL) for seed in SEEDS), (len(SEEDS), LARGE)]
CUSTOM_ADDRESSES = ("record:one", "record:two", "widget:ns0.w.1", "widget:ns1.w", "probe:ns0.shop.p1")
# see `sparse_tenant`
SPARSE = ("one user", "no grants", "no users", "groups without members", "inactive users", "nothing live")


def lower_limits(monkeypatch):
    for module, name in (
        (units, "UNIT_ENTITIES"),
        (encode, "_SAMPLED_ENTITIES"),
        (bits, "CHUNK_BYTES"),
        (sums, "MAX_BUFFERED_COUNTS"),
        (engine_pairs, "MAX_BUFFERED_PAIRS"),
        (engine_pairs, "MIN_PAIRS_PER_PART"),
        (user_grants, "TABLE_BATCH_ROWS"),
    ):
        monkeypatch.setattr(module, name, 8)


def tenant_with_custom_kinds(seed, *, has_later_kinds=False):
    """Return a random tenant with a live entity of each custom kind and a namespace without grants."""
    tenant, dice = (
        random_tenant(seed, has_patterns=True, has_later_kinds=has_later_kinds),
        random.Random(seed),
    )
    for address in ("namespace:bare", "application:ns0.shop", *CUSTOM_ADDRESSES):
        tenant.entities[parse_address(address)] = State.LIVE
    principals = [f"user:{name}" for name in tenant.users] + [group_text(name) for name in tenant.groups]
    for address in map(parse_address, CUSTOM_ADDRESSES):
        tenant.grants |= {
            (principal, address, privilege)
            for principal in principals
            for privilege in Privilege
            if dice.random() < 0.2
        }
    store_tenant(tenant)
    return tenant


def live_addresses(tenant):
    return [address for address, state in tenant.entities.items() if state == State.LIVE]


def active_users(tenant):
    return [name for name, standing in tenant.users.items() if standing == (True, True)]


def held_privileges(tenant):
    """Return every (user, address, privilege) that an active user holds on a live address."""
    return {
        (user, address, str(privilege))
        for user in active_users(tenant)
        for address in live_addresses(tenant)
        for privilege in Privilege
        if reference_is_permitted(tenant, Question("user", user, str(privilege), address, "final"))
    }


def sparse_tenant(name):
    """Return a tenant in which a part is missing."""
    sales, orders = parse_address("namespace:sales"), parse_address("dataset:sales.orders")
    entities = {instance_address(): State.LIVE, sales: State.LIVE, orders: State.LIVE}
    grant = ("user:ann", orders, Privilege.READ)
    match name:
        case "one user":
            return Tenant(entities, {"ann": (True, True)}, {}, {grant})
        case "no grants":
            return Tenant(entities, {"ann": (True, True)}, {"staff": ["ann"]}, set())
        case "no users":
            return Tenant(entities, {}, {"staff": []}, {("group:staff", orders, Privilege.READ)})
        case "groups without members":
            staff = ("group:staff", orders, Privilege.READ)
            return Tenant(entities, {"ann": (True, True)}, {"staff": []}, {grant, staff})
        case "inactive users":
            staff = ("group:staff", orders, Privilege.READ)
            return Tenant(entities, {"ann": (False, True)}, {"staff": ["ann"]}, {grant, staff})
        case "nothing live":
            return Tenant(dict.fromkeys(entities, State.DELETED), {"ann": (True, True)}, {}, {grant})


def run_analysis(folder, *arguments, detail=True):
    """Run the command and return the rows of the result table and of the detail table."""
    paths = [folder / "rows.jsonl", folder / "detail.jsonl"][: 1 + detail]
    options = [
        option
        for name, path in zip(("--output", "--detail"), paths, strict=False)
        for option in (name, str(path))
    ]
    call_command("analyze", *arguments, *options)
    return [[tuple(json.loads(line).values()) for line in path.read_text().splitlines()] for path in paths]


def tables_of(name, **options):
    """Run an analysis in this process, and return the rows of each of its tables."""
    analysis = ANALYSES[name]
    with execution.analysis_in_foreground(
        analysis, validated_options(analysis, options), with_detail=True, on_stage=lambda stage: None
    ) as folder:
        return {
            output.table.name: [
                tuple(row.values())
                for batch in result_batches(output.table, folder)
                for row in batch.to_pylist()
            ]
            for output in analysis.written_outputs
        }


def sort_rows(rows, key_columns):
    return sorted(rows, key=lambda row: [part.encode() for part in row[:key_columns]])
