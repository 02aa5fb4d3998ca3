"""`ghost-grants` and `stranded` broadcast users and groups only, never a table that grows with the tenant."""

import re

import pytest

from analytics.spark.analyses import ghost_grants, stranded
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.schemas import read_snapshot, schema_of, write_table
from analytics.tables import SNAPSHOT_TABLES

pytestmark = pytest.mark.spark

ADDRESSES = 3_000
ROWS = {
    "entities": [(n, "dataset", f"sales.d{n}", None, None, None, ("live", "planned", "deleted")[n % 3])
                 for n in range(ADDRESSES)],
    "users": [(1, "ada")],
    "groups": [(1, "analysts")],
    "memberships": [(1, 1)],
    "grants": [("user", 1, n, "ADMIN", "") for n in range(ADDRESSES)],
}


@pytest.fixture(scope="module")
def analysis_input(spark, tmp_path_factory):
    """A snapshot in files, so that Spark knows that every table is small enough to be broadcast."""
    folder = tmp_path_factory.mktemp("snapshot")
    for table in SNAPSHOT_TABLES:
        write_table(spark.createDataFrame(ROWS[table.name], schema_of(table)), table, f"{folder}/{table.name}")
    return AnalysisInput(read_snapshot(spark, f"file://{folder}"), "final")


def executed_plan(frame):
    """The physical plan after the frame was collected, so that adaptive execution has decided on every join."""
    frame.collect()
    return frame._jdf.queryExecution().executedPlan().toString()


def columns_broadcast(plan):
    """The text below each BroadcastExchange: what is broadcast, down to the files that it is read from."""
    final = plan.split("== Initial Plan ==")[0]
    lines, found = final.splitlines(), []
    for number, line in enumerate(lines):
        if "BroadcastExchange" in line:
            depth = line.index("BroadcastExchange")
            below = []
            for other in lines[number + 1 :]:
                indent = re.search(r"[A-Za-z*(]", other)
                if indent is None or indent.start() <= depth:
                    break
                below.append(other)
            found.append("\n".join(below))
    return found


@pytest.mark.parametrize("build", [ghost_grants.rows, stranded.rows, stranded.kinds],
                         ids=lambda build: f"{build.__module__}.{build.__name__}")
def test_no_table_that_grows_with_the_tenant_is_broadcast(spark, analysis_input, build):
    assert spark.conf.get("spark.sql.autoBroadcastJoinThreshold") == "10485760b"
    plan = executed_plan(build(analysis_input))
    assert "SortMergeJoin" in plan
    for below in columns_broadcast(plan):
        for table in ("entities", "grants"):
            assert f"/{table}]" not in below, plan
    # the test can tell: users are broadcast
    assert any("/users]" in below for below in columns_broadcast(plan)), plan
