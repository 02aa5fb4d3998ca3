"""What limits the engine on a cluster, by counters that do not depend on the machine."""


import numpy as np
import pyarrow as pa
import pytest

from analytics.spark.engine import ChangeCounts, LiveNamespaces, encode, entry, evaluate_rules, layout
from analytics.spark.engine.compiled import CompiledFact, CompiledRule, CompiledRules
from analytics.spark.engine.members import Directory
from analytics.spark.engine.merge import merge_counts
from analytics.spark.engine.pack import from_bytes, pack_counts
from analytics.spark.engine.rows import (
    GROUP,
    NONE,
    USER,
    ContainerGrantRows,
    DescendantGrantRows,
    GrantRows,
    PrecomputedFactRows,
    TargetRows,
    TenantRows,
    concatenate,
    to_batch,
)
from analytics.spark.engine.rules import generation_rules, impact_rules, visibility_rules
from analytics.spark.engine.small_tenant import Local
from analytics.spark.schemas import Tables, schema_of
from analytics.tables import ENTITIES, GRANTS, GROUPS, IMPACT, MEMBERSHIPS, USERS, VISIBILITY

PARTITIONS, BLOCKS, BLOCK_ENTITIES, USER_COUNT, KIND_COUNT = 8, 40, 50, 2_000, 5
# every kind is visible to those who hold a privilege on the entity itself
SELF_RULES = CompiledRules(tuple(CompiledRule(kind, ("any", ()), ("held", (0,))) for kind in range(KIND_COUNT)),
                           (CompiledFact("self", 1, frozenset(range(KIND_COUNT))),))


def huge_namespace(dice):
    """One namespace in many blocks, over all partitions; a group of everyone holds everything, some users something."""
    entities = np.arange(BLOCKS * BLOCK_ENTITIES) + 10
    block, kind = entities % BLOCKS, dice.integers(0, KIND_COUNT, len(entities))
    own = dice.integers(0, len(entities), 500)
    at = np.concatenate([np.arange(len(entities)), own])
    of_group = np.arange(len(at)) < len(entities)
    grants = {"family": np.ones(len(at)), "block": block[at], "kind": kind[at], "entity": entities[at],
              "application": np.full(len(at), NONE), "principal_type": np.where(of_group, GROUP, USER),
              "principal": np.where(of_group, 1, dice.integers(0, USER_COUNT, len(at))), "privilege": np.zeros(len(at))}
    for partition in range(PARTITIONS):
        mine = {name: column[block[at] % PARTITIONS == partition] for name, column in grants.items()}
        yield to_batch(TenantRows(*(concatenate(row_type, [mine] if row_type is GrantRows else []) for row_type in (
            TargetRows, GrantRows, ContainerGrantRows, DescendantGrantRows, PrecomputedFactRows))))


def test_partial_counts_are_combined_before_the_exchange(monkeypatch):
    monkeypatch.setattr(layout, "UNIT_ENTITIES", BLOCK_ENTITIES)
    users = np.arange(USER_COUNT)
    directory = Directory.build(
        pa.table({"id": users, "name": [f"user {user:05}" for user in users]}),
        pa.table({"user_id": users, "group_id": np.ones(USER_COUNT, np.int64)}),
        pa.table({"id": [1], "name": ["huge"], "required": [0]}))
    shared, order, parts = Local(directory.to_dict()), tuple(range(KIND_COUNT)), entry.part_count(200, USER_COUNT)
    assert parts == USER_COUNT // entry.PART_USERS
    pack = pack_counts(SELF_RULES, order, parts, shared, by_namespace=True)
    packed = [batch for rows in huge_namespace(np.random.default_rng(5)) for batch in pack(iter([rows]))]
    entries = sum(len(from_bytes(value.as_py())) for batch in packed for value in batch.column("gained"))
    columns = (("user", "user"), ("rule", tuple("01234")), ("visible", "gained"))
    merge = merge_counts(order, parts, columns, shared, by_namespace=True)
    result = pa.Table.from_batches(list(merge(iter(packed))))
    assert result.num_rows == USER_COUNT * KIND_COUNT
    assert sum(result["visible"].to_pylist()) == USER_COUNT * BLOCKS * BLOCK_ENTITIES
    assert entries <= 1.5 * result.num_rows


@pytest.fixture
def split_tenant(spark, monkeypatch):
    """An application with more programs than a block holds, users and groups, by way of Spark's joins."""
    monkeypatch.setattr(layout, "UNIT_ENTITIES", 100)
    monkeypatch.setattr(encode, "_SAMPLED", 100)

    def frame(table, rows):
        return spark.createDataFrame(list(rows), schema_of(table))

    programs = range(10, 510)
    grants = [("user", 1, 3, "ADMIN", ""), ("group", 1, 20, "READ", ""), ("user", 2, 2, "ADMIN", ""), ("user", 3, 1, "ADMIN", ""),
              *(("group", 1, program, "EXECUTE", "") for program in programs if program % 3 == 0)]
    return Tables(
        entities=frame(ENTITIES, [
            (1, "instance", "cdap", None, None, None, "live"), (2, "namespace", "huge", 1, 2, None, "live"),
            (3, "application", "huge.app", 2, 2, 3, "live"),
            *((program, "program", f"huge.app.spark.p{program}", 3, 2, 3, "live") for program in programs)]),
        users=frame(USERS, [(number, f"user {number:03}") for number in range(1, 41)]),
        groups=frame(GROUPS, [(1, "all")]),
        memberships=frame(MEMBERSHIPS, [(number, 1) for number in range(4, 41)]),
        grants=frame(GRANTS, grants),
    )


@pytest.fixture
def partitions(spark):
    """Sets how many partitions an exchange has."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    yield lambda count: spark.conf.set("spark.sql.shuffle.partitions", str(count))
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.spark
def test_an_application_larger_than_a_block_is_split(split_tenant, partitions):
    partitions(2)
    encoded = encode.encode(encode.Evaluation(split_tenant, visibility_rules("final"))).toArrow()
    blocks = encoded.filter(np.asarray(encoded["entity"]) >= 10)["block"].to_pylist()
    assert len(set(blocks)) == 6 and max(map(blocks.count, set(blocks))) < 100
    rows = evaluate_rules(split_tenant, visibility_rules("final"), ChangeCounts(VISIBILITY, gained="visible")).frame.collect()
    visible = {(row["user"], row["kind"]): row["visible"] for row in rows}
    held = sum(1 for program in range(10, 510) if program % 3 == 0 or program == 20)
    assert visible[("user 004", "program")] == held
    # what is held below the application shows it, though it is in another block
    assert visible[("user 004", "application")] == visible[("user 004", "namespace")] == visible[("user 001", "application")] == 1
    assert ("user 003", "namespace") not in visible


@pytest.mark.spark
def test_a_grant_on_a_split_application_counts_for_all_of_its_programs(split_tenant, partitions):
    partitions(3)
    names = ("entities", "users", "groups", "memberships", "grants")
    small = Tables(**{name: getattr(split_tenant, name).coalesce(1) for name in names}, is_small=True)
    for rule_set in (impact_rules("existing", "final"), impact_rules("core", "proposed")):
        split, whole = (sorted(evaluate_rules(tables, rule_set, ChangeCounts(IMPACT, by_namespace=False)).frame.collect())
                        for tables in (split_tenant, small))
        assert split == whole != []


@pytest.mark.spark
def test_the_rows_of_the_exchange_do_not_depend_on_the_number_of_partitions(split_tenant, partitions):
    counts = []
    for count in (2, 7):
        partitions(count)
        encoded = encode.encode(encode.Evaluation(split_tenant, generation_rules("existing")))
        assert encoded.rdd.getNumPartitions() == count
        counts.append(encoded.count())
    assert counts[0] == counts[1] < 2_000


@pytest.mark.spark
def test_nothing_that_grows_with_the_entities_or_grants_is_broadcast(split_tenant, spark):
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        for namespaces in (None, LiveNamespaces("huge")):
            encoded = encode.encode(encode.Evaluation(split_tenant, visibility_rules("final"), namespaces=namespaces))
            plan = encoded._jdf.queryExecution().executedPlan().toString()
            broadcast = [line for line in plan.splitlines() if "BroadcastExchange" in line]
            # of each the families and the applications that fill more than one unit; and the chosen namespace
            assert len(broadcast) <= (5 if namespaces is None else 10)
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
