"""Encode a small tenant in this process, without Spark's joins.

For a tenant of a few hundred thousand rows, Spark takes many times as long to plan and compile the joins of
`encode` and `precompute` as one core takes for all the work. The rows are the same, and so are all later
steps.
"""

from functools import lru_cache, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from analytics.spark.engine.directory import Directory, LocalBroadcast, find_in
from analytics.spark.engine.encode import Evaluation, union
from analytics.spark.engine.precompute import held_evaluation, tested_kinds
from analytics.spark.engine.rows import (
    COLUMNS,
    EVERYONE,
    GRANT,
    GROUP,
    NONE,
    PRECOMPUTED,
    TARGET,
    USER,
    Array,
)
from analytics.spark.engine.rules import PRIVILEGES
from analytics.spark.engine.sums import count_by_subtree
from analytics.spark.schemas import Tables
from entities.vocabulary import INNER_CONTAINER_KINDS

_COLUMNS = {
    "entities": ("id", "kind", "key", "namespace_id", "application_id", "state"),
    "users": ("id", "name"),
    "memberships": ("user_id", "group_id"),
    "grants": ("principal_type", "principal_id", "entity_id", "privilege"),
    "revealed": ("principal_type", "principal_id", "entity_id", "privilege"),
}


class SmallTenant:
    """The tables of a tenant in memory."""

    def __init__(self, tables: dict[str, pa.Table]):
        """tables: with the names and columns of _COLUMNS."""
        self._tables = tables
        # by row of `entities`, the subtrees by kind of container
        self._entities = self._tables["entities"]
        self._ids = _numbers(self._entities["id"])
        self._kinds = np.array(self._entities["kind"].to_pylist(), object)
        self._is_live = np.array(pc.equal(self._entities["state"], "live"), bool)
        self._subtrees = {
            "namespace": _numbers(self._entities["namespace_id"]),
            "application": np.where(
                self._kinds == "application", self._ids, _numbers(self._entities["application_id"])
            ),
        }

    @staticmethod
    @lru_cache(maxsize=1)
    def collect(tables: Tables) -> "SmallTenant":
        """Collect the tables in one job. All outputs of an analysis get the same tenant."""
        frames = [
            getattr(tables, name).select(F.lit(name).alias("table"), *columns)
            for name, columns in _COLUMNS.items()
        ]
        table = reduce(union, frames).toArrow()
        return SmallTenant(
            {
                name: table.filter(pc.equal(table["table"], name)).select(columns)
                for name, columns in _COLUMNS.items()
            }
        )

    def directory(self, evaluation: Evaluation) -> Directory:
        """Return the directory, as `collect_directory` does."""
        limits = evaluation.namespaces
        is_listed = self._kinds == "namespace"
        if limits is not None:
            is_listed &= self._is_live
            if limits.name:
                is_listed &= np.array(pc.equal(self._entities["key"], limits.name), bool)
        is_required = self._is_live & np.isin(self._kinds, evaluation.required_kinds)
        row = find_in(self._ids[is_listed], self._subtrees["namespace"][is_required])
        required = np.bincount(row[row != NONE], minlength=int(is_listed.sum()))
        listed = self._entities.filter(pa.array(is_listed))
        namespaces = pa.table({"id": listed["id"], "name": listed["key"], "required": required})
        directory = Directory.build(self._tables["users"], self._tables["memberships"], namespaces)
        grants = self._grants("namespace")
        on_instance = np.isin(grants["entity"], self._ids[self._kinds == "instance"])
        return directory.with_instance_grants(
            *(grants[name][on_instance] for name in ("principal_type", "principal", "selector"))
        )

    def encode(self, evaluation: Evaluation, *, with_names: bool = False) -> pa.RecordBatch:
        """Return the rows that `encode.encode` returns for subtrees that are not split."""
        numbers = evaluation.kind_numbers
        kind = np.array([numbers.get(name, NONE) for name in self._kinds], np.int64)
        subtree = self._subtrees[evaluation.container]
        is_target = self._is_live & (kind != NONE)
        if evaluation.namespaces is not None:
            is_target &= (subtree != NONE) & np.isin(subtree, self.directory(evaluation).namespace_ids)
        targets = {
            "form": np.full(is_target.sum(), TARGET),
            "subtree": subtree[is_target],
            "kind": kind[is_target],
            "entity": self._ids[is_target],
            "application": self._subtrees["application"][is_target],
        }
        parts = [targets, self._grants(evaluation.container), *self._precomputed(evaluation)]
        counts = [len(part["form"]) for part in parts]
        columns: dict[str, pa.Array | Array] = {
            name: np.concatenate(
                [part.get(name, np.full(count, NONE)) for part, count in zip(parts, counts, strict=True)]
            )
            for name in COLUMNS
        }
        columns["block"] = np.zeros(sum(counts), np.int64)
        if with_names:
            rows = self._entities.filter(pa.array(is_target))
            names = pc.binary_join_element_wise(rows["kind"], rows["key"], ":").combine_chunks()
            columns["name"] = pa.concat_arrays([names, pa.nulls(sum(counts[1:]), pa.string())])
        return pa.record_batch(columns)

    def _grants(self, container: str) -> dict[str, Array]:
        grants, revealed = self._tables["grants"], self._tables["revealed"]
        table = pa.concat_tables([grants, revealed])
        row = find_in(self._ids, _numbers(table["entity_id"]))
        entity = np.append(_numbers(grants["entity_id"]), np.full(len(revealed), NONE))
        privilege = _numbers(pc.index_in(table["privilege"], value_set=pa.array(PRIVILEGES)))
        columns = {
            "form": np.full(len(row), GRANT),
            "subtree": self._subtrees[container][row],
            "entity": entity,
            "application": self._subtrees["application"][row],
            "principal_type": np.where(pc.equal(table["principal_type"], "user"), USER, GROUP),
            "principal": _numbers(table["principal_id"]),
            "selector": privilege,
        }
        return {name: column[row != NONE] for name, column in columns.items()}

    def _precomputed(self, evaluation: Evaluation) -> list[dict[str, Array]]:
        """Return the holders of the facts about all live entities, as `precompute_facts` does."""
        rows = []
        for container in INNER_CONTAINER_KINDS:
            kinds_by_fact = tested_kinds(evaluation, container)
            is_container = self._kinds == container
            ids, subtrees = self._ids[is_container], self._subtrees[evaluation.container][is_container]
            if not kinds_by_fact:
                continue
            held = self._count_held(held_evaluation(evaluation, container))
            for fact, kinds in kinds_by_fact.items():
                tested = find_in(ids, self._subtrees[container][self._is_live & np.isin(self._kinds, kinds)])
                totals = np.bincount(tested[tested != NONE], minlength=len(ids))
                empty = np.flatnonzero(totals == 0)
                of_fact = held.filter(pc.equal(held["rule"], fact))
                row = find_in(ids, of_fact["subtree"].to_numpy())
                is_holder = (row != NONE) & (of_fact["gained_sum"].to_numpy() == totals[row])
                row = np.append(empty, row[is_holder])
                users = of_fact["user_id"].to_numpy()[is_holder]
                rows.append(
                    {
                        "form": np.full(len(row), PRECOMPUTED),
                        "subtree": subtrees[row],
                        "entity": ids[row],
                        "principal_type": np.repeat([GROUP, USER], [len(empty), len(users)]),
                        "principal": np.append(np.full(len(empty), EVERYONE), users),
                        "selector": np.full(len(row), fact),
                    }
                )
        return rows

    def _count_held(self, evaluation: Evaluation) -> pa.Table:
        """Return the sums of `count_by_subtree`, with the number of the fact as `rule`."""
        broadcast = LocalBroadcast(self.directory(evaluation).to_dict())
        batches = list(count_by_subtree(evaluation.rules, broadcast)(iter([self.encode(evaluation)])))
        fact_by_rule = np.array([int(rule.operation) for rule in evaluation.rule_set.rules], np.int64)
        schema = pa.schema([(name, pa.int64()) for name in ("subtree", "rule", "user_id", "gained")])
        counts = pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)
        facts = pa.array(fact_by_rule[counts["rule"].to_numpy()])
        counts = counts.set_column(1, "rule", facts)
        return counts.group_by(["subtree", "rule", "user_id"]).aggregate([("gained", "sum")])


def _numbers(column: pa.ChunkedArray) -> Array:
    """Return the column as numbers, with NONE for null."""
    return column.fill_null(NONE).to_numpy().astype(np.int64)
