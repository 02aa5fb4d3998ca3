"""The engine scales on a cluster. The tests count rows, which do not depend on the machine."""

import pytest

from analytics.spark.engine import LiveNamespaces, encode, units
from analytics.spark.engine.rules import generation_rules, visibility_rules
from analytics.spark.schemas import Tables, schema_of
from analytics.tables import (
    ENTITIES,
    GRANTS,
    GROUPS,
    INACTIVE_USERS,
    MEMBERSHIPS,
    REVEALED,
    USERS,
)
from tests.analytics.spark.conftest import DETAILS

PROGRAMS = range(10, 510)


@pytest.fixture
def split_tenant(spark, monkeypatch):
    """Return the tables of a tenant with a namespace that is split into blocks."""
    monkeypatch.setattr(units, "UNIT_ENTITIES", 100)
    monkeypatch.setattr(encode, "_SAMPLED_ENTITIES", 100)

    def frame(table, rows):
        return spark.createDataFrame(list(rows), schema_of(table))

    grants = [
        ("user", 1, 3, "ADMIN", *DETAILS),
        ("group", 1, 20, "READ", *DETAILS),
        ("user", 2, 2, "ADMIN", *DETAILS),
        ("user", 3, 1, "ADMIN", *DETAILS),
        *(("group", 1, program, "EXECUTE", *DETAILS) for program in PROGRAMS if program % 3 == 0),
    ]
    return Tables(
        entities=frame(
            ENTITIES,
            [
                (1, "instance", "cdap", None, None, None, "live"),
                (2, "namespace", "huge", 1, 2, None, "live"),
                *((app, "application", f"huge.app{app}", 2, 2, app, "live") for app in range(3, 9)),
                *(
                    (
                        program,
                        "program",
                        f"huge.app.spark.p{program}",
                        3 + program % 6,
                        2,
                        3 + program % 6,
                        "live",
                    )
                    for program in PROGRAMS
                ),
            ],
        ),
        users=frame(USERS, [(number, f"user {number:03}") for number in range(1, 41)]),
        inactive_users=frame(INACTIVE_USERS, []),
        groups=frame(GROUPS, [(1, "all")]),
        memberships=frame(MEMBERSHIPS, [(number, 1, None) for number in range(4, 41)]),
        grants=frame(GRANTS, grants),
        revealed=frame(REVEALED, []),
    )


@pytest.fixture
def set_partitions(spark):
    """Return a function that sets how many partitions an exchange has."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    yield lambda count: spark.conf.set("spark.sql.shuffle.partitions", str(count))
    spark.conf.set("spark.sql.shuffle.partitions", before)


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
            # for each input of the union: the large subtrees and the selected namespaces
            assert len(broadcasts) <= (2 if namespaces is None else 6)
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
