"""`ghost-grants`, `stranded` and `redundant` broadcast users, groups and a limited number of rows, never all entities or
grants.
"""

import re

import pytest

from analytics.spark import joins
from analytics.spark.analyses import ghost_grants, redundant, stranded
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.schemas import read_snapshot, schema_of, write_table
from analytics.spark.temporary import release_temporary
from analytics.tables import SNAPSHOT_TABLES

pytestmark = pytest.mark.spark

ADDRESSES = 3_000
ROWS = {
    "entities": [
        (n, "dataset", f"sales.d{n}", None, None, None, ("live", "planned", "deleted")[n % 3])
        for n in range(ADDRESSES)
    ],
    "users": [(1, "ada")],
    "groups": [(1, "analysts")],
    "inactive_users": [],
    "memberships": [(1, 1, None)],
    "grants": [
        (kind, 1, n, "ADMIN", "", "2026-01-01T00:00:00Z", None, "")
        for kind in ("user", "group")
        for n in range(ADDRESSES)
    ],
    "revealed": [],
}


@pytest.fixture
def analysis_input(spark, tmp_path_factory):
    """Return a snapshot in files, so that Spark knows the size of every table and that it is small enough to
    be broadcast.
    """
    # Spark shortens long paths in plans.
    folder = tmp_path_factory.mktemp("snapshot")
    for table in SNAPSHOT_TABLES:
        write_table(
            spark.createDataFrame(ROWS[table.name], schema_of(table)), table, f"{folder}/{table.name}"
        )
    return AnalysisInput(read_snapshot(spark, f"file://{folder}"), {"generation": "final"})


def executed_plan(frame):
    """Return the physical plan of a collected frame.

    Adaptive execution chooses the type of a join only at run time.
    """
    frame.collect()
    return frame._jdf.queryExecution().executedPlan().toString()


def broadcast_inputs(plan):
    """Return the text below each BroadcastExchange in the initial and the final plan: its input, down to the files that
    are read.
    """
    lines, inputs = plan.splitlines(), []
    for number, line in enumerate(lines):
        if "BroadcastExchange" in line:
            depth = line.index("BroadcastExchange")
            below = []
            for line_below in lines[number + 1 :]:
                indent = re.search(r"[A-Za-z*(]", line_below)
                if indent is None or indent.start() <= depth:
                    break
                below.append(line_below)
            inputs.append("\n".join(below))
    return inputs


@pytest.mark.parametrize(
    "build",
    [ghost_grants.rows, stranded.rows, stranded.kinds, redundant.rows],
    ids=lambda build: f"{build.__module__}.{build.__name__}",
)
def test_entities_and_grants_are_never_broadcast(spark, analysis_input, build, monkeypatch):
    assert spark.conf.get("spark.sql.autoBroadcastJoinThreshold") == "10485760b"
    monkeypatch.setattr(joins, "BROADCAST_ROWS", 0)
    with release_temporary():
        plan = executed_plan(build(analysis_input))
    assert "SortMergeJoin" in plan
    for broadcast_input in broadcast_inputs(plan):
        for table in ("entities", "grants"):
            assert f"/{table}]" not in broadcast_input, plan
    # users are broadcast, so the check above recognizes the input of a broadcast
    assert any("/users]" in broadcast_input for broadcast_input in broadcast_inputs(plan)), plan


def test_few_rows_are_broadcast_and_kept_only_until_they_are_written(spark, analysis_input):
    with release_temporary():
        plan = executed_plan(redundant.rows(analysis_input))
        assert "SortMergeJoin" not in plan and "InMemoryTableScan" in plan
    assert spark.sparkContext._jsc.sc().getPersistentRDDs().isEmpty()
