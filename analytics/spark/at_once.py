"""Tables of a small tenant in one step of one Python worker, which has the names at hand: judged, summed, named, in order."""

import sys
from collections.abc import Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark.packing import NAMESPACE_NAME, USER_NAME, holders_merged
from analytics.spark.verdicts import BatchFunction
from analytics.spark.whole import PlainPlan, Tenant, numbers, part_rows, places, tenant_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def changes_at_once(plan: PlainPlan, packed: BatchFunction, merged: BatchFunction) -> BatchFunction:
    """The tables of a tenant -> what changes_merged makes of them. packed, merged: as packing has them, for one part of users."""
    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if tenant := tenant_of(batches):
            names = [_named(USER_NAME, 0, tenant.users["name"]), _named(NAMESPACE_NAME, 1, tenant.namespaces(None)["key"])]
            yield from merged(chain(packed(iter([part_rows(tenant, plan)])), names))

    return made


def _named(what: int, first: int, names: pa.ChunkedArray) -> pa.RecordBatch:
    """As packing.PACKED: numbered from `first` on."""
    return pa.record_batch({"part": np.zeros(len(names), np.int32), "what": np.full(len(names), what, np.int32),
                            "number": np.arange(first, len(names) + first), "name": names.combine_chunks()})


def holders_at_once(plan: PlainPlan, packed: BatchFunction, kinds_needed: tuple[str, ...]) -> BatchFunction:
    """The tables of a tenant -> tables.READINESS. packed: as packing.holders_packed. kinds_needed: of what ADMIN is needed."""
    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not (tenant := tenant_of(batches)):
            return
        if held := list(packed(iter([part_rows(tenant, plan)]))):
            names, required = _required(tenant, plan, kinds_needed)
            told = pa.Table.from_batches(held)
            at = pa.array(told["rank"].to_numpy() - 1)
            told = told.append_column("namespace", names.take(at)).append_column("required", required.take(at))
            users = pa.table({"user": tenant.users["name"], "number": np.arange(len(tenant.users))})
            yield from holders_merged(iter(pa.concat_tables([told, users], promote_options="default").to_batches()))

    return made


def _required(tenant: Tenant, plan: PlainPlan, kinds_needed: tuple[str, ...]) -> tuple[pa.ChunkedArray, pa.Array]:
    """(names, on how much ADMIN is needed) of the namespaces, by rank."""
    namespaces = tenant.namespaces(plan.namespaces)
    at = places(numbers(tenant.entities["namespace_id"]), namespaces["id"])
    is_needed = tenant.is_live & tenant.is_of(*kinds_needed) & (at >= 0)
    return namespaces["key"], pa.array(np.bincount(at[is_needed], minlength=len(namespaces)))


def pairs_at_once(plan: PlainPlan, spread: BatchFunction, operations: tuple[str, ...]) -> BatchFunction:
    """The tables of a tenant -> changes.NAMED_PAIRS. spread: as verdicts.changes_spread. operations: by rule."""
    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if tenant := tenant_of(batches):
            ids, names, operation = tenant.users["id"], tenant.users["name"].combine_chunks(), pa.array(operations, pa.string())
            for pairs in spread(iter([part_rows(tenant, plan, with_names=True)])):
                user = names.take(pa.array(places(pairs["user_id"], ids)))
                yield pa.record_batch({"user": user, "entity": pairs["entity"], "operation": operation.take(pairs["rule"]),
                                       "after": pairs["after"]})

    return made
