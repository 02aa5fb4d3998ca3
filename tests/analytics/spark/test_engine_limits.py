"""The engine scales on a cluster. The tests count rows, which do not depend on the machine."""

import numpy as np
import pyarrow as pa
import pytest

from analytics.spark.batches import unpack_numbers
from analytics.spark.engine import ChangeCounts, LiveNamespaces, encode, entry, evaluate_rules, layout
from analytics.spark.engine.compiled import CompiledFact, CompiledRule, CompiledRules
from analytics.spark.engine.members import Directory
from analytics.spark.engine.merge import merge_counts
from analytics.spark.engine.pack import pack_counts
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
    encode_batch,
    rows_from_columns,
)
from analytics.spark.engine.rules import generation_rules, impact_rules, visibility_rules
from analytics.spark.engine.small_tenant import LocalBroadcast
from analytics.spark.schemas import Tables, schema_of
from analytics.tables import ENTITIES, GRANTS, GROUPS, IMPACT, MEMBERSHIPS, USERS, VISIBILITY

PARTITIONS, BLOCKS, BLOCK_ENTITIES, USER_COUNT, KIND_COUNT = 8, 40, 50, 2_000, 5
# An entity of any kind is visible with a privilege on the entity itself.
SELF_RULES = CompiledRules(
    tuple(CompiledRule(kind, ("any", ()), ("held", (0,))) for kind in range(KIND_COUNT)),
    (CompiledFact("self", 1, frozenset(range(KIND_COUNT))),),
)


def huge_namespace_batches(dice):
    """Yield the batch of each partition for one namespace in many blocks.

    A group of all users has a grant on every entity, and some users have direct grants.
    """
    entities = np.arange(BLOCKS * BLOCK_ENTITIES) + 10
    block, kind = entities % BLOCKS, dice.integers(0, KIND_COUNT, len(entities))
    user_grants = dice.integers(0, len(entities), 500)
    granted = np.concatenate([np.arange(len(entities)), user_grants])
    is_group_grant = np.arange(len(granted)) < len(entities)
    grants = {
        "subtree": np.ones(len(granted)),
        "block": block[granted],
        "kind": kind[granted],
        "entity": entities[granted],
        "application": np.full(len(granted), NONE),
        "principal_type": np.where(is_group_grant, GROUP, USER),
        "principal": np.where(is_group_grant, 1, dice.integers(0, USER_COUNT, len(granted))),
        "privilege": np.zeros(len(granted)),
    }
    for partition in range(PARTITIONS):
        in_partition = block[granted] % PARTITIONS == partition
        columns = {name: column[in_partition] for name, column in grants.items()}
        yield encode_batch(
            TenantRows(
                *(
                    rows_from_columns(row_type, [columns] if row_type is GrantRows else [])
                    for row_type in (
                        TargetRows,
                        GrantRows,
                        ContainerGrantRows,
                        DescendantGrantRows,
                        PrecomputedFactRows,
                    )
                )
            )
        )


def test_partial_counts_are_combined_before_the_exchange(monkeypatch):
    monkeypatch.setattr(layout, "UNIT_ENTITIES", BLOCK_ENTITIES)
    users = np.arange(USER_COUNT)
    directory = Directory.build(
        pa.table({"id": users, "name": [f"user {user:05}" for user in users]}),
        pa.table({"user_id": users, "group_id": np.ones(USER_COUNT, np.int64)}),
        pa.table({"id": [1], "name": ["huge"], "required": [0]}),
    )
    broadcast, order = LocalBroadcast(directory.to_dict()), tuple(range(KIND_COUNT))
    part_count = entry.user_part_count(200, USER_COUNT)
    assert part_count == USER_COUNT // entry.MIN_USERS_PER_PART
    pack = pack_counts(SELF_RULES, order, part_count, broadcast, by_namespace=True)
    packed = [
        batch for rows in huge_namespace_batches(np.random.default_rng(5)) for batch in pack(iter([rows]))
    ]
    packed_counts = sum(
        len(unpack_numbers(value.as_py())) for batch in packed for value in batch.column("gained")
    )
    columns = (("user", "user"), ("rule", tuple("01234")), ("visible", "gained"))
    merge = merge_counts(order, part_count, columns, broadcast, by_namespace=True)
    result = pa.Table.from_batches(list(merge(iter(packed))))
    assert result.num_rows == USER_COUNT * KIND_COUNT
    assert sum(result["visible"].to_pylist()) == USER_COUNT * BLOCKS * BLOCK_ENTITIES
    assert packed_counts <= 1.5 * result.num_rows


@pytest.fixture
def split_tenant(spark, monkeypatch):
    """Return the tables of a tenant with an application that has more programs than a block; `encode` encodes
    it.
    """
    monkeypatch.setattr(layout, "UNIT_ENTITIES", 100)
    monkeypatch.setattr(encode, "_SAMPLED_ENTITIES", 100)

    def frame(table, rows):
        return spark.createDataFrame(list(rows), schema_of(table))

    programs = range(10, 510)
    grants = [
        ("user", 1, 3, "ADMIN", ""),
        ("group", 1, 20, "READ", ""),
        ("user", 2, 2, "ADMIN", ""),
        ("user", 3, 1, "ADMIN", ""),
        *(("group", 1, program, "EXECUTE", "") for program in programs if program % 3 == 0),
    ]
    return Tables(
        entities=frame(
            ENTITIES,
            [
                (1, "instance", "cdap", None, None, None, "live"),
                (2, "namespace", "huge", 1, 2, None, "live"),
                (3, "application", "huge.app", 2, 2, 3, "live"),
                *(
                    (program, "program", f"huge.app.spark.p{program}", 3, 2, 3, "live")
                    for program in programs
                ),
            ],
        ),
        users=frame(USERS, [(number, f"user {number:03}") for number in range(1, 41)]),
        groups=frame(GROUPS, [(1, "all")]),
        memberships=frame(MEMBERSHIPS, [(number, 1) for number in range(4, 41)]),
        grants=frame(GRANTS, grants),
    )


@pytest.fixture
def set_partitions(spark):
    """Return a function that sets how many partitions an exchange has."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    yield lambda count: spark.conf.set("spark.sql.shuffle.partitions", str(count))
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.spark
def test_an_application_larger_than_a_block_is_split(split_tenant, set_partitions):
    set_partitions(2)
    encoded = encode.encode(encode.Evaluation(split_tenant, visibility_rules("final"))).toArrow()
    blocks = encoded.filter(np.asarray(encoded["entity"]) >= 10)["block"].to_pylist()
    assert len(set(blocks)) == 6 and max(map(blocks.count, set(blocks))) < 100
    table = evaluate_rules(
        split_tenant, visibility_rules("final"), ChangeCounts(VISIBILITY, gained_column="visible")
    )
    visible = {(row["user"], row["kind"]): row["visible"] for row in table.frame.collect()}
    granted_programs = sum(1 for program in range(10, 510) if program % 3 == 0 or program == 20)
    assert visible[("user 004", "program")] == granted_programs
    # a grant inside the application makes the application visible, although the granted entity is in another
    # block
    assert (
        visible[("user 004", "application")]
        == visible[("user 004", "namespace")]
        == visible[("user 001", "application")]
        == 1
    )
    assert ("user 003", "namespace") not in visible


@pytest.mark.spark
def test_a_grant_on_a_split_application_counts_for_all_of_its_programs(split_tenant, set_partitions):
    set_partitions(3)
    names = ("entities", "users", "groups", "memberships", "grants")
    small = Tables(**{name: getattr(split_tenant, name).coalesce(1) for name in names}, is_small=True)
    for rule_set in (impact_rules("existing", "final"), impact_rules("core", "proposed")):
        split_rows, small_rows = (
            sorted(evaluate_rules(tables, rule_set, ChangeCounts(IMPACT, by_namespace=False)).frame.collect())
            for tables in (split_tenant, small)
        )
        assert split_rows == small_rows != []


@pytest.mark.spark
def test_the_rows_of_the_exchange_do_not_depend_on_the_number_of_partitions(split_tenant, set_partitions):
    counts = []
    for count in (2, 7):
        set_partitions(count)
        encoded = encode.encode(encode.Evaluation(split_tenant, generation_rules("existing")))
        assert encoded.rdd.getNumPartitions() == count
        counts.append(encoded.count())
    assert counts[0] == counts[1] < 2_000


@pytest.mark.spark
def test_nothing_that_grows_with_the_entities_or_grants_is_broadcast(split_tenant, spark):
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        for namespaces in (None, LiveNamespaces("huge")):
            encoded = encode.encode(
                encode.Evaluation(split_tenant, visibility_rules("final"), namespaces=namespaces)
            )
            plan = encoded._jdf.queryExecution().executedPlan().toString()
            broadcasts = [line for line in plan.splitlines() if "BroadcastExchange" in line]
            # for each input of the union: the large subtrees, the large applications, and the selected
            # namespace
            assert len(broadcasts) <= (5 if namespaces is None else 10)
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
