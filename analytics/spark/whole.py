"""A small tenant as one part: a Python worker gets its tables as they are, and lays them out as the rows that are judged.

What analytics.spark.facts says with Spark's joins is said here in arrays. To plan and compile those joins takes Spark many times
as long as the whole work on a tenant that one core holds in memory anyway.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from analytics.spark.counting import changes_counted
from analytics.spark.units import COLUMNS, EVERYBODY, FACT, GRANT, INSTANCE_WIDE, MEMBER, NOTHING, TARGET, USER
from analytics.spark.verdicts import Law

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# what is sent of each table; a column named `table` tells the rows apart
SENT = {
    "entities": ("id", "kind", "key", "namespace_id", "application_id", "state"),
    "users": ("id", "name"),
    "memberships": ("user_id", "group_id"),
    "grants": ("principal_type", "principal_id", "entity_id", "privilege"),
}


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Which are asked of: the live ones; name: that one alone, or empty for all."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class PlainPlan:
    """A plan as a Python worker takes it.

    kind_numbers: by each kind that is asked of. privileges: by number. container, namespaces: as facts.Asked has them.
    all_live: who holds what on all that lives in a container, where the law asks for that.
    """

    law: Law
    kind_numbers: dict[str, int]
    privileges: tuple[str, ...]
    container: str = "namespace"
    namespaces: Namespaces | None = None
    all_live: tuple["AllLive", ...] = ()


@dataclass(frozen=True, slots=True)
class AllLive:
    """Facts about every container of one kind that are true of whom holds something on all that lives in it.

    facts: their numbers. lacking: what it is that somebody lacks, by container; None where nothing lies in one. rules: of each
    fact the numbers of the rules of `lacking` that count for it.
    """

    container: str
    facts: tuple[int, ...]
    lacking: PlainPlan | None = None
    rules: dict[int, tuple[int, ...]] = field(default_factory=dict)


class Tenant:
    """The tables that one Python worker was sent; all columns of SENT.

    application, is_live: of each entity; an application is its own.
    """

    def __init__(self, batches: list[pa.RecordBatch]):
        together = pa.Table.from_batches(batches)
        tables = {name: together.filter(pc.equal(together["table"], name)).select(columns) for name, columns in SENT.items()}
        self.entities, self.memberships, self.grants = (tables[name] for name in ("entities", "memberships", "grants"))
        # a place among all by name is a place here
        self.users = tables["users"].sort_by("name")
        self.is_live = _among(self.entities["state"], ("live",))
        self.application = np.where(self.is_of("application"), numbers(self.entities["id"]),
                                    numbers(self.entities["application_id"]))

    def family(self, container: str) -> np.ndarray:
        """Of each entity; NOTHING where it lies in no such container."""
        return self.application if container == "application" else numbers(self.entities["namespace_id"])

    def is_of(self, *kinds: str) -> np.ndarray:
        return _among(self.entities["kind"], kinds)

    def namespaces(self, chosen: Namespaces | None) -> pa.Table:
        """id and key, by rank: the first has the rank 1."""
        is_chosen = self.is_of("namespace")
        if chosen is not None:
            is_chosen = is_chosen & self.is_live
        if chosen is not None and chosen.name:
            is_chosen = is_chosen & _among(self.entities["key"], (chosen.name,))
        return self.entities.select(["id", "key"]).filter(pa.array(is_chosen)).sort_by("key")


def tenant_of(batches: Iterator[pa.RecordBatch]) -> Tenant | None:
    """None where nothing was sent."""
    sent = list(batches)
    return Tenant(sent) if sent else None


def part_rows(tenant: Tenant, plan: PlainPlan, *, with_names: bool = False) -> pa.RecordBatch:
    """COLUMNS, of the whole tenant as one part in which each family is one block. with_names: and `name`, as facts.parts."""
    family = tenant.family(plan.container)
    rank = places(family, tenant.namespaces(plan.namespaces)["id"]) + 1
    is_asked = np.ones(len(family), bool) if plan.namespaces is None else rank > 0
    is_target = is_asked & tenant.is_live & tenant.is_of(*plan.kind_numbers)
    rows = [
        _targets(tenant, plan, is_target, family, rank),
        *_grants(tenant, plan, is_asked, family, np.unique(family[is_target])),
        *(_told(tenant, all_live, is_asked, family) for all_live in plan.all_live),
        _row(USER, entity=numbers(tenant.users["id"]), what=np.arange(len(tenant.users))),
        _row(MEMBER, principal=_group(numbers(tenant.memberships["group_id"])), entity=numbers(tenant.memberships["user_id"])),
    ]
    columns = {name: np.concatenate([row[name] for row in rows]) for name in COLUMNS}
    if with_names:
        columns["name"] = _names(tenant, is_target, len(columns["tag"]))
    return pa.record_batch(columns)


def _targets(tenant: Tenant, plan: PlainPlan, is_target: np.ndarray, family: np.ndarray,
             rank: np.ndarray) -> dict[str, np.ndarray]:
    kind = places(tenant.entities["kind"].filter(pa.array(is_target)), pa.array(plan.kind_numbers, pa.string()))
    return _row(TARGET, family=family[is_target], principal=rank[is_target], entity=numbers(tenant.entities["id"])[is_target],
                what=np.array([*plan.kind_numbers.values()], np.int64)[kind], application=tenant.application[is_target])


def _names(tenant: Tenant, is_target: np.ndarray, rows: int) -> pa.Array:
    """The addresses of the targets, which come first."""
    targets = tenant.entities.filter(pa.array(is_target))
    names = pc.binary_join_element_wise(targets["kind"], targets["key"], ":").combine_chunks()
    return pa.concat_arrays([names, pa.nulls(rows - len(names), pa.string())])


def _grants(tenant: Tenant, plan: PlainPlan, is_asked: np.ndarray, family: np.ndarray,
            families: np.ndarray) -> Iterator[dict[str, np.ndarray]]:
    """GRANT, and INSTANCE_WIDE in all of these families: the grants that some fact looks at."""
    grants = tenant.grants
    what = places(grants["privilege"], pa.array(plan.privileges))
    looked_at = reduce(int.__or__, (fact.privileges for fact in plan.law.facts), 0)
    at = places(grants["entity_id"], tenant.entities["id"])
    is_meant = (at != NOTHING) & (what != NOTHING) & (looked_at >> np.maximum(what, 0) & 1 == 1)
    at, what = at[is_meant], what[is_meant]
    number = numbers(grants["principal_id"])[is_meant]
    principal = np.where(_among(grants["principal_type"], ("user",))[is_meant], number, _group(number))
    here = is_asked[at]
    yield _row(GRANT, family=family[at][here], principal=principal[here], what=what[here],
               entity=numbers(tenant.entities["id"])[at][here], application=tenant.application[at][here])
    if any(fact.form == "instance" for fact in plan.law.facts):
        is_wide = tenant.is_of("instance")[at]
        count = int(is_wide.sum())
        yield _row(INSTANCE_WIDE, family=np.repeat(families, count), principal=np.tile(principal[is_wide], len(families)),
                   what=np.tile(what[is_wide], len(families)))


def _told(tenant: Tenant, all_live: AllLive, is_asked: np.ndarray, family: np.ndarray) -> dict[str, np.ndarray]:
    """FACT: each container with everybody where there is nothing to hold, else with each user who holds all."""
    container = tenant.is_of(all_live.container) & is_asked
    ids, family = numbers(tenant.entities["id"])[container], family[container]
    counted = _lacking(tenant, all_live.lacking)
    found = [np.empty((3, 0), np.int64)]
    for fact in all_live.facts:
        at, principal = _holding_all(ids, counted, all_live.rules.get(fact, ()))
        found.append(np.stack([at, principal, np.full(len(at), fact)]))
    at, principal, fact = np.concatenate(found, axis=1)
    return _row(FACT, family=family[at], principal=principal, what=fact, entity=ids[at])


def _lacking(tenant: Tenant, plan: PlainPlan | None) -> dict[str, np.ndarray]:
    """is_everybody, user_id, family, rule, lost: as verdicts.COUNTS."""
    batches = [] if plan is None else list(changes_counted(plan.law)(iter([part_rows(tenant, plan)])))
    names = {"is_everybody": bool, "user_id": np.int64, "family": np.int64, "rule": np.int64, "lost": np.int64}
    return {name: np.concatenate([np.empty(0, of), *(batch[name].to_numpy(zero_copy_only=False) for batch in batches)])
            for name, of in names.items()}


def _holding_all(containers: np.ndarray, counted: dict[str, np.ndarray], rules: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(places of containers, principals) of whom lacks nothing by these rules."""
    counts = np.isin(counted["rule"], rules)
    at, lost = places(counted["family"], pa.array(containers)), counted["lost"]
    counts &= at != NOTHING
    of_nobody = np.zeros(len(containers), np.int64)
    is_total = counts & counted["is_everybody"]
    np.add.at(of_nobody, at[is_total], lost[is_total])
    of_users = counts & ~counted["is_everybody"]
    pairs, pair = np.unique(np.stack([at, counted["user_id"]])[:, of_users], axis=1, return_inverse=True)
    # how much less a user lacks than those who hold nothing
    less = np.zeros(pairs.shape[1], np.int64)
    np.add.at(less, pair.reshape(-1), lost[of_users])
    holders = pairs[:, of_nobody[pairs[0]] + less == 0]
    vacuous = np.nonzero(of_nobody == 0)[0]
    return np.concatenate([vacuous, holders[0]]), np.concatenate([np.full(len(vacuous), EVERYBODY), holders[1]])


def _row(tag: int, **columns: np.ndarray) -> dict[str, np.ndarray]:
    """COLUMNS, with nothing where nothing is said."""
    count = len(columns["principal" if "principal" in columns else "entity"])
    told = {"tag": np.full(count, tag), "block": np.zeros(count, np.int64), "what": np.zeros(count, np.int64), **columns}
    return {name: told[name].astype(np.int64) if name in told else np.full(count, NOTHING) for name in COLUMNS}


def _group(ids: np.ndarray) -> np.ndarray:
    # groups below everybody
    return EVERYBODY - 1 - ids


def numbers(column: pa.ChunkedArray) -> np.ndarray:
    """NOTHING where there is none."""
    return column.fill_null(NOTHING).to_numpy()


def _among(column: pa.ChunkedArray, values: tuple[str, ...]) -> np.ndarray:
    return pc.is_in(column, value_set=pa.array(values, pa.string())).to_numpy()


def places(wanted: pa.ChunkedArray | np.ndarray, values: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Of each its place among the values; NOTHING where it is none of them."""
    wanted = pa.array(wanted) if isinstance(wanted, np.ndarray) else wanted
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    places = pc.index_in(wanted, value_set=values).fill_null(NOTHING)
    return places.to_numpy().astype(np.int64)
