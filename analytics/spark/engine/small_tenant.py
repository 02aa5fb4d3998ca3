"""A small tenant as one unit of work: one Python worker gets its tables and makes the typed rows itself.

`encode` does the same with Spark's joins. Spark takes many times as long to plan and compile those joins as one core takes for
all the work on a tenant that it holds in memory anyway. Both make the row types of `rows`, and share every later step.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from analytics.spark.batches import BatchFunction
from analytics.spark.engine.compiled import CompiledRules, LiveNamespaces
from analytics.spark.engine.count import count_changes
from analytics.spark.engine.members import Directory, Shared
from analytics.spark.engine.rows import (
    EVERYONE,
    GROUP,
    NONE,
    USER,
    Array,
    ContainerGrantRows,
    DescendantGrantRows,
    GrantRows,
    PrecomputedFactRows,
    TargetRows,
    TenantRows,
    concatenate,
    to_batch,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# The columns that are sent of each table; the column `table` tells the rows apart.
SENT_COLUMNS = {
    "entities": ("id", "kind", "key", "namespace_id", "application_id", "state"),
    "users": ("id", "name"),
    "memberships": ("user_id", "group_id"),
    "grants": ("principal_type", "principal_id", "entity_id", "privilege"),
}


@dataclass(frozen=True, slots=True)
class SmallTenantRules:
    """An encode.Evaluation in the form for a Python worker. privileges: by number. all_live: see AllLiveFacts."""

    rules: CompiledRules
    kind_numbers: dict[str, int]
    privileges: tuple[str, ...]
    container: str = "namespace"
    namespaces: LiveNamespaces | None = None
    required_kinds: tuple[str, ...] = ()
    all_live: tuple["AllLiveFacts", ...] = ()


@dataclass(frozen=True, slots=True)
class AllLiveFacts:
    """Facts about the containers of one kind that are true of users with a privilege on every live entity inside.

    facts: their numbers. missing: the rules that a user loses on each entity without the privilege; None if containers of this
    kind have no such entities. rules: by fact, the numbers of those rules that count for it.
    """

    container: str
    facts: tuple[int, ...]
    missing: SmallTenantRules | None = None
    rules: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Local:
    """A replacement for a broadcast when the value is already in this process."""

    value: dict[str, object]


Stages = Callable[[Shared], tuple[BatchFunction, ...]]


def evaluate_small_tenant(small: SmallTenantRules, stages: Stages, *, with_names: bool = False) -> BatchFunction:
    """Return a function from the tables of a tenant to the output of the last stage.

    stages: given the directory, functions that follow one another; the first takes the tenant rows.
    """
    def evaluate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received = list(batches)
        if received:
            tenant = Tenant(received)
            yield from run_stages(tenant, small, stages, with_names=with_names)

    return evaluate


class Tenant:
    """The tables of a tenant. application, is_live: of each entity; an application is in itself."""

    def __init__(self, batches: list[pa.RecordBatch]):
        table = pa.Table.from_batches(batches)
        tables = {name: table.filter(pc.equal(table["table"], name)).select(columns) for name, columns in SENT_COLUMNS.items()}
        self.entities, self.users, self.memberships, self.grants = (tables[name] for name in SENT_COLUMNS)
        self.entity_ids = to_numbers(self.entities["id"])
        self.is_live = is_among(self.entities["state"], ("live",))
        self.application = np.where(self.is_of("application"), self.entity_ids, to_numbers(self.entities["application_id"]))

    def family(self, container: str) -> Array:
        """The family of each entity; NONE if it is in no such container."""
        return self.application if container == "application" else to_numbers(self.entities["namespace_id"])

    def is_of(self, *kinds: str) -> Array:
        return is_among(self.entities["kind"], kinds)

    def directory(self, small: SmallTenantRules) -> Directory:
        """Return the directory with the grants on the instance."""
        is_chosen = self.is_of("namespace")
        if small.namespaces is not None:
            is_chosen &= self.is_live
        if small.namespaces is not None and small.namespaces.name:
            is_chosen &= is_among(self.entities["key"], (small.namespaces.name,))
        namespaces = self.entities.select(["id", "key"]).rename_columns(["id", "name"]).filter(pa.array(is_chosen))
        at = index_of(to_numbers(self.entities["namespace_id"]), namespaces["id"])
        is_required = self.is_live & self.is_of(*small.required_kinds) & (at != NONE)
        required = np.bincount(at[is_required], minlength=len(namespaces)).astype(np.int64)
        directory = Directory.build(self.users, self.memberships, namespaces.append_column("required", pa.array(required)),
                                    is_selection=small.namespaces is not None)
        grants = self.used_grants(small)
        on_instance = self.is_of("instance")[grants.entity_row]
        return directory.with_instance_grants(*(column[on_instance] for column in (
            grants.principal_type, grants.principal, grants.privilege)))

    def used_grants(self, small: SmallTenantRules) -> "UsedGrants":
        """Return the grants that at least one fact uses."""
        privilege = index_of(self.grants["privilege"], pa.array(small.privileges))
        entity_row = index_of(self.grants["entity_id"], self.entities["id"])
        is_used = (entity_row != NONE) & (privilege != NONE) & (small.rules.privileges >> np.maximum(privilege, 0) & 1 == 1)
        is_user = is_among(self.grants["principal_type"], ("user",))
        return UsedGrants(*(column[is_used] for column in (
            np.where(is_user, USER, GROUP), to_numbers(self.grants["principal_id"]), privilege, entity_row)))


@dataclass(frozen=True, slots=True, eq=False)
class UsedGrants:
    """entity_row: the row of the granted entity among the entities of the tenant."""

    principal_type: Array
    principal: Array
    privilege: Array
    entity_row: Array


def run_stages(tenant: Tenant, small: SmallTenantRules, stages: Stages, *, with_names: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield the output of the last stage for the tenant's rows."""
    batches: Iterator[pa.RecordBatch] = iter([to_batch(encode_tables(tenant, small, with_names=with_names))])
    for stage in stages(Local(tenant.directory(small).to_dict())):
        batches = stage(batches)
    return batches


def encode_tables(tenant: Tenant, small: SmallTenantRules, *, with_names: bool = False) -> TenantRows:
    """Return the tenant as typed rows. Each family is in one block, so no grant counts in another block.

    with_names: include the addresses of the targets.
    """
    family = tenant.family(small.container)
    is_target = tenant.is_live & tenant.is_of(*small.kind_numbers)
    kind = index_of(tenant.entities["kind"].filter(pa.array(is_target)), pa.array(small.kind_numbers, pa.string()))
    kind = np.array([*small.kind_numbers.values()], np.int64)[kind]
    targets = {"family": family[is_target], "block": np.zeros(len(kind)), "kind": kind, "entity": tenant.entity_ids[is_target],
               "application": tenant.application[is_target]}
    used = tenant.used_grants(small)
    at, count = used.entity_row, len(used.entity_row)
    grants = {"family": family[at], "block": np.zeros(count), "kind": np.full(count, NONE), "entity": tenant.entity_ids[at],
              "application": tenant.application[at], "principal_type": used.principal_type, "principal": used.principal,
              "privilege": used.privilege}
    facts = [_precompute(tenant, all_live, family) for all_live in small.all_live]
    return TenantRows(
        concatenate(TargetRows, [targets]), concatenate(GrantRows, [grants]), concatenate(ContainerGrantRows, []),
        concatenate(DescendantGrantRows, []), concatenate(PrecomputedFactRows, facts),
        _addresses(tenant, is_target) if with_names else None)


def _addresses(tenant: Tenant, is_target: Array) -> pa.Array:
    targets = tenant.entities.filter(pa.array(is_target))
    return pc.binary_join_element_wise(targets["kind"], targets["key"], ":").combine_chunks()


def _precompute(tenant: Tenant, all_live: AllLiveFacts, family: Array) -> dict[str, Array]:
    """Return the columns of PrecomputedFactRows.

    Each container has a row for everyone if it contains no live entity, else one for each user who holds all.
    """
    is_container = tenant.is_of(all_live.container)
    ids, family = tenant.entity_ids[is_container], family[is_container]
    counts = _missing_counts(tenant, all_live.missing)
    found = [np.empty((4, 0), np.int64)]
    for fact in all_live.facts:
        at, principal_type, principal = _holders_of_all(ids, counts, all_live.rules.get(fact, ()))
        found.append(np.stack([at, principal_type, principal, np.full(len(at), fact)]))
    at, principal_type, principal, facts = np.concatenate(found, axis=1)
    return {"family": family[at], "block": np.zeros(len(at)), "entity": ids[at], "principal_type": principal_type,
            "principal": principal, "fact": facts}


def _missing_counts(tenant: Tenant, missing: SmallTenantRules | None) -> dict[str, Array]:
    """Return is_everyone, user_id, family, rule and lost, as in count.COUNTS."""
    batches: list[pa.RecordBatch] = []
    if missing is not None:
        batches = list(run_stages(tenant, missing, lambda shared: (count_changes(missing.rules, shared),)))
    types = {"is_everyone": bool, "user_id": np.int64, "family": np.int64, "rule": np.int64, "lost": np.int64}
    return {name: np.concatenate([np.empty(0, of), *(batch[name].to_numpy(zero_copy_only=False) for batch in batches)])
            for name, of in types.items()}


def _holders_of_all(containers: Array, counts: dict[str, Array], rules: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Return (indexes of containers, principal types, principals) for principals that lack nothing according to these rules."""
    at, lost = index_of(counts["family"], pa.array(containers)), counts["lost"]
    counted = np.isin(counts["rule"], rules) & (at != NONE)
    of_everyone = np.zeros(len(containers), np.int64)
    is_total = counted & counts["is_everyone"]
    np.add.at(of_everyone, at[is_total], lost[is_total])
    of_users = counted & ~counts["is_everyone"]
    pairs, pair = np.unique(np.stack([at, counts["user_id"]])[:, of_users], axis=1, return_inverse=True)
    # the number of entities without the privilege: of a user, minus that of everyone
    difference = np.zeros(pairs.shape[1], np.int64)
    np.add.at(difference, pair.reshape(-1), lost[of_users])
    holders = pairs[:, of_everyone[pairs[0]] + difference == 0]
    empty = np.nonzero(of_everyone == 0)[0]
    return (np.concatenate([empty, holders[0]]), np.repeat([EVERYONE, USER], [len(empty), holders.shape[1]]),
            np.concatenate([np.full(len(empty), NONE), holders[1]]))


def to_numbers(column: pa.ChunkedArray) -> Array:
    """Return the column as numbers, with NONE for null."""
    return column.fill_null(NONE).to_numpy()


def is_among(column: pa.ChunkedArray, values: tuple[str, ...]) -> Array:
    return np.array(pc.is_in(column, value_set=pa.array(values, pa.string())))


def index_of(values: pa.ChunkedArray | Array, of: pa.ChunkedArray | pa.Array) -> Array:
    """Return the index of each value in `of`; NONE if it is not there."""
    values = pa.array(values) if isinstance(values, np.ndarray) else values
    of = of.combine_chunks() if isinstance(of, pa.ChunkedArray) else of
    return pc.index_in(values, value_set=of).fill_null(NONE).to_numpy().astype(np.int64)
