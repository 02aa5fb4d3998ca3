"""A small tenant in one Python worker, which receives the tables of the tenant and builds the typed rows
itself.

`encode` does the same with Spark's joins. For a tenant that fits into memory, Spark takes many times as long
to plan and compile those joins as one core takes for all the work. Both build the row types of `rows`, and
all later steps are the same.
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
from analytics.spark.engine.members import Directory, DirectoryBroadcast
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
    encode_batch,
    rows_from_columns,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# The columns of each table that are sent to the worker. The tables are sent as one, with the name of the
# table as column `table`.
TABLE_COLUMNS = {
    "entities": ("id", "kind", "key", "namespace_id", "application_id", "state"),
    "users": ("id", "name"),
    "memberships": ("user_id", "group_id"),
    "grants": ("principal_type", "principal_id", "entity_id", "privilege"),
}


@dataclass(frozen=True, slots=True)
class SmallTenantRules:
    """An encode.Evaluation in the form for a Python worker.

    privileges: the names, by number. all_live: the facts about all live entities, one element for each kind
    of container.
    """

    rules: CompiledRules
    kind_numbers: dict[str, int]
    privileges: tuple[str, ...]
    container: str = "namespace"
    namespaces: LiveNamespaces | None = None
    required_kinds: tuple[str, ...] = ()
    all_live: tuple["AllLiveFacts", ...] = ()


@dataclass(frozen=True, slots=True)
class AllLiveFacts:
    """Facts about containers of one kind. A user holds one if it holds the privilege on every live entity
    inside the container.

    facts: the numbers of the facts.
    missing: rules that a user loses on each entity without the privilege; None if these containers cannot
    contain such entities.
    rules: by fact number, the numbers of the rules of `missing` that belong to the fact.
    """

    container: str
    facts: tuple[int, ...]
    missing: SmallTenantRules | None = None
    rules: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LocalBroadcast:
    """A DirectoryBroadcast with a value that is already in this process."""

    value: dict[str, object]


# a function from the broadcast directory to functions that are called one after the other
Stages = Callable[[DirectoryBroadcast], tuple[BatchFunction, ...]]


def evaluate_small_tenant(
    small_rules: SmallTenantRules, stages: Stages, *, with_names: bool = False
) -> BatchFunction:
    """Return a function that turns the tables of a tenant into the output of the last stage.

    The first stage receives tenant rows.
    """

    def evaluate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        all_batches = list(batches)
        if all_batches:
            yield from run_stages(Tenant(all_batches), small_rules, stages, with_names=with_names)

    return evaluate


class Tenant:
    """The tables of a tenant.

    entity_ids, is_live, application: by row of `entities`. The application of an application is its own id.
    """

    def __init__(self, batches: list[pa.RecordBatch]):
        """batches: the tables as one, see TABLE_COLUMNS."""
        table = pa.Table.from_batches(batches)
        tables = {
            name: table.filter(pc.equal(table["table"], name)).select(columns)
            for name, columns in TABLE_COLUMNS.items()
        }
        self.entities, self.users, self.memberships, self.grants = (tables[name] for name in TABLE_COLUMNS)
        self.entity_ids = to_numbers(self.entities["id"])
        self.is_live = is_among(self.entities["state"], ("live",))
        self.application = np.where(
            self.has_kind("application"), self.entity_ids, to_numbers(self.entities["application_id"])
        )

    def subtree(self, container: str) -> Array:
        """Return the subtree of each entity. container: see encode.Evaluation."""
        return self.application if container == "application" else to_numbers(self.entities["namespace_id"])

    def has_kind(self, *kinds: str) -> Array:
        """Return whether each entity has one of these kinds."""
        return is_among(self.entities["kind"], kinds)

    def directory(self, small_rules: SmallTenantRules) -> Directory:
        """Return the directory with the grants on the instance."""
        is_selected = self.has_kind("namespace")
        if small_rules.namespaces is not None:
            is_selected &= self.is_live
        if small_rules.namespaces is not None and small_rules.namespaces.name:
            is_selected &= is_among(self.entities["key"], (small_rules.namespaces.name,))
        namespaces = (
            self.entities.select(["id", "key"]).rename_columns(["id", "name"]).filter(pa.array(is_selected))
        )
        namespace_row = indexes_in(namespaces["id"], to_numbers(self.entities["namespace_id"]))
        is_required = self.is_live & self.has_kind(*small_rules.required_kinds) & (namespace_row != NONE)
        required = np.bincount(namespace_row[is_required], minlength=len(namespaces)).astype(np.int64)
        directory = Directory.build(
            self.users,
            self.memberships,
            namespaces.append_column("required", pa.array(required)),
            is_restricted=small_rules.namespaces is not None,
        )
        grants = self.used_grants(small_rules)
        is_on_instance = self.has_kind("instance")[grants.entity_row]
        return directory.with_instance_grants(
            *(
                column[is_on_instance]
                for column in (grants.principal_type, grants.principal, grants.privilege)
            )
        )

    def used_grants(self, small_rules: SmallTenantRules) -> "UsedGrants":
        """Return the grants that at least one fact uses."""
        privilege = indexes_in(pa.array(small_rules.privileges), self.grants["privilege"])
        entity_row = indexes_in(self.entities["id"], self.grants["entity_id"])
        has_used_privilege = small_rules.rules.privileges >> np.maximum(privilege, 0) & 1 == 1
        is_used = (entity_row != NONE) & (privilege != NONE) & has_used_privilege
        is_user = is_among(self.grants["principal_type"], ("user",))
        return UsedGrants(
            *(
                column[is_used]
                for column in (
                    np.where(is_user, USER, GROUP),
                    to_numbers(self.grants["principal_id"]),
                    privilege,
                    entity_row,
                )
            )
        )


@dataclass(frozen=True, slots=True, eq=False)
class UsedGrants:
    """Columns of grants. entity_row: the row of the granted entity in Tenant.entities."""

    principal_type: Array
    principal: Array
    privilege: Array
    entity_row: Array


def run_stages(
    tenant: Tenant, small_rules: SmallTenantRules, stages: Stages, *, with_names: bool = False
) -> Iterator[pa.RecordBatch]:
    """Return the output of the last stage for the rows of the tenant."""
    batches: Iterator[pa.RecordBatch] = iter(
        [encode_batch(tenant_rows(tenant, small_rules, with_names=with_names))]
    )
    for stage in stages(LocalBroadcast(tenant.directory(small_rules).to_dict())):
        batches = stage(batches)
    return batches


def tenant_rows(tenant: Tenant, small_rules: SmallTenantRules, *, with_names: bool = False) -> TenantRows:
    """Return the tenant as typed rows. Subtrees are not split into blocks, so no grant counts in another
    block.

    with_names: include the addresses of the targets.
    """
    subtree = tenant.subtree(small_rules.container)
    is_target = tenant.is_live & tenant.has_kind(*small_rules.kind_numbers)
    kind_indexes = indexes_in(
        pa.array(small_rules.kind_numbers, pa.string()), tenant.entities["kind"].filter(pa.array(is_target))
    )
    kind = np.array([*small_rules.kind_numbers.values()], np.int64)[kind_indexes]
    targets = {
        "subtree": subtree[is_target],
        "block": np.zeros(len(kind)),
        "kind": kind,
        "entity": tenant.entity_ids[is_target],
        "application": tenant.application[is_target],
    }
    used = tenant.used_grants(small_rules)
    rows, count = used.entity_row, len(used.entity_row)
    grants = {
        "subtree": subtree[rows],
        "block": np.zeros(count),
        "kind": np.full(count, NONE),
        "entity": tenant.entity_ids[rows],
        "application": tenant.application[rows],
        "principal_type": used.principal_type,
        "principal": used.principal,
        "privilege": used.privilege,
    }
    facts = [_precomputed_facts(tenant, all_live, subtree) for all_live in small_rules.all_live]
    return TenantRows(
        rows_from_columns(TargetRows, [targets]),
        rows_from_columns(GrantRows, [grants]),
        rows_from_columns(ContainerGrantRows, []),
        rows_from_columns(DescendantGrantRows, []),
        rows_from_columns(PrecomputedFactRows, facts),
        _addresses(tenant, is_target) if with_names else None,
    )


def _addresses(tenant: Tenant, is_target: Array) -> pa.Array:
    targets = tenant.entities.filter(pa.array(is_target))
    return pc.binary_join_element_wise(targets["kind"], targets["key"], ":").combine_chunks()


def _precomputed_facts(tenant: Tenant, all_live: AllLiveFacts, subtree: Array) -> dict[str, Array]:
    """Return the columns of PrecomputedFactRows for the facts about containers of one kind.

    Each container has a row for everyone if it contains no live entity, else a row for each user who holds
    the privilege on all of them.
    """
    is_container = tenant.has_kind(all_live.container)
    ids, subtree = tenant.entity_ids[is_container], subtree[is_container]
    counts = _missing_counts(tenant, all_live.missing)
    # (indexes of containers, principal types, principals, fact numbers)
    holders = [np.empty((4, 0), np.int64)]
    for fact in all_live.facts:
        containers, principal_types, principals = _holders_of_all(ids, counts, all_live.rules.get(fact, ()))
        holders.append(np.stack([containers, principal_types, principals, np.full(len(containers), fact)]))
    containers, principal_types, principals, facts = np.concatenate(holders, axis=1)
    return {
        "subtree": subtree[containers],
        "block": np.zeros(len(containers)),
        "entity": ids[containers],
        "principal_type": principal_types,
        "principal": principals,
        "fact": facts,
    }


def _missing_counts(tenant: Tenant, missing: SmallTenantRules | None) -> dict[str, Array]:
    """Return is_everyone, user_id, subtree, rule and lost, as in count.COUNTS."""
    batches: list[pa.RecordBatch] = []
    if missing is not None:
        batches = list(
            run_stages(tenant, missing, lambda broadcast: (count_changes(missing.rules, broadcast),))
        )
    types = {
        "is_everyone": bool,
        "user_id": np.int64,
        "subtree": np.int64,
        "rule": np.int64,
        "lost": np.int64,
    }
    return {
        name: np.concatenate(
            [np.empty(0, dtype), *(batch[name].to_numpy(zero_copy_only=False) for batch in batches)]
        )
        for name, dtype in types.items()
    }


def _holders_of_all(
    container_ids: Array, counts: dict[str, Array], rules: tuple[int, ...]
) -> tuple[Array, Array, Array]:
    """Return (indexes of containers, principal types, principals): the principals that lack no privilege in a
    container.
    """
    container, lost = indexes_in(pa.array(container_ids), counts["subtree"]), counts["lost"]
    is_counted = np.isin(counts["rule"], rules) & (container != NONE)
    is_everyone = is_counted & counts["is_everyone"]
    lost_by_everyone = np.zeros(len(container_ids), np.int64)
    np.add.at(lost_by_everyone, container[is_everyone], lost[is_everyone])
    is_user = is_counted & ~counts["is_everyone"]
    pairs, pair = np.unique(np.stack([container, counts["user_id"]])[:, is_user], axis=1, return_inverse=True)
    # by container and user: the number of entities without the privilege, minus that of everyone
    difference = np.zeros(pairs.shape[1], np.int64)
    np.add.at(difference, pair.reshape(-1), lost[is_user])
    holders = pairs[:, lost_by_everyone[pairs[0]] + difference == 0]
    empty = np.nonzero(lost_by_everyone == 0)[0]
    return (
        np.concatenate([empty, holders[0]]),
        np.repeat([EVERYONE, USER], [len(empty), holders.shape[1]]),
        np.concatenate([np.full(len(empty), NONE), holders[1]]),
    )


def to_numbers(column: pa.ChunkedArray) -> Array:
    """Return the column as numbers, with NONE for null."""
    return column.fill_null(NONE).to_numpy()


def is_among(column: pa.ChunkedArray, values: tuple[str, ...]) -> Array:
    return np.array(pc.is_in(column, value_set=pa.array(values, pa.string())))


def indexes_in(known_values: pa.ChunkedArray | pa.Array, values: pa.ChunkedArray | Array) -> Array:
    """Return the index of each value in `known_values`; NONE if it is not there."""
    values = pa.array(values) if isinstance(values, np.ndarray) else values
    known_values = (
        known_values.combine_chunks() if isinstance(known_values, pa.ChunkedArray) else known_values
    )
    return pc.index_in(values, value_set=known_values).fill_null(NONE).to_numpy().astype(np.int64)
