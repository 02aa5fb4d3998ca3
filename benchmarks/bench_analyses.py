"""Compare analyses with DuckDB, and snapshots with `psql \\copy`.

DuckDB computes the same rows in SQL from the same Parquet files with the same cores, has as much memory as all processes of
Spark may use, and writes them in the same order to Parquet files with the same compression and without Bloom filters.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import duckdb

from analytics.analyses import ANALYSES, DEFAULT_SHARE
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.schemas import read_snapshot, write_table
from analytics.spark.session import spark_session, stop_spark
from analytics.spark.temporary import release_temporary
from analytics.tables import SNAPSHOT_TABLES
from authzconsole.ops.machine import postgresql_folder
from benchmarks.console import bench_console
from benchmarks.memory import measure_peak_memory
from benchmarks.parquet_tenants import add_group_of_everyone, write_parquet_tenant
from benchmarks.ratios import Task, compare
from benchmarks.size import Size

MEMORY = "3g"
LARGE = Size(entities=1_000_000, namespaces=200, users=10_000, groups=500, grants=2_000_000)
# groups of a random tenant have little in common, so that most of what they give is an outlier: a million rows
SMALL = Size(entities=20_000, namespaces=20, users=500, groups=50, grants=40_000)
LARGE_GIGABYTES = 6
# the time of the tenants, after the days with uses
AT = datetime(2026, 6, 1, tzinfo=UTC)
EVERYONE_TIMES, IMPACT_SECONDS = 2, 300

# the users of each principal: the user itself, or the active members of the group
_USERS_OF_PRINCIPALS = """
users_of_principals AS (SELECT 'user' AS principal_type, id AS principal_id, id AS user_id FROM users
  UNION ALL SELECT 'group', m.group_id, m.user_id FROM memberships m SEMI JOIN users u ON u.id = m.user_id)"""
_SQL = {
    "visibility": f"""
WITH {_USERS_OF_PRINCIPALS},
held AS (SELECT DISTINCT r.user_id, g.entity_id FROM (SELECT DISTINCT principal_type, principal_id, entity_id FROM grants) g
  JOIN users_of_principals r USING (principal_type, principal_id)),
located AS (SELECT h.user_id, e.id, e.kind, e.namespace_id, e.application_id FROM held h JOIN entities e ON e.id = h.entity_id),
visible AS (SELECT user_id, id FROM located WHERE kind NOT IN ('instance', 'namespace', 'application', 'kerberosprincipal')
  UNION ALL SELECT DISTINCT user_id, application_id FROM located WHERE application_id IS NOT NULL
  UNION ALL SELECT DISTINCT user_id, namespace_id FROM located WHERE namespace_id IS NOT NULL),
counted AS (SELECT s.user_id, e.kind, e.namespace_id, count(*) AS visible
  FROM visible s JOIN entities e ON e.id = s.id AND e.state = 'live' GROUP BY ALL)
SELECT u.name AS "user", c.kind, n.key AS namespace, c.visible
FROM counted c JOIN users u ON u.id = c.user_id JOIN entities n ON n.id = c.namespace_id""",
    "delete-readiness": f"""
WITH {_USERS_OF_PRINCIPALS},
admin AS (SELECT DISTINCT principal_type, principal_id, entity_id FROM grants WHERE privilege = 'ADMIN'),
live AS (SELECT id, key FROM entities WHERE kind = 'namespace' AND state = 'live'),
held AS (SELECT DISTINCT r.user_id, a.entity_id FROM admin a JOIN users_of_principals r USING (principal_type, principal_id)),
counted AS (SELECT h.user_id, e.namespace_id, count(*) FILTER (e.state = 'live') AS held
  FROM held h JOIN entities e ON e.id = h.entity_id WHERE e.namespace_id IS NOT NULL GROUP BY ALL),
totals AS (SELECT namespace_id, count(*) FILTER (state = 'live') AS required
  FROM entities WHERE namespace_id IS NOT NULL GROUP BY ALL)
SELECT n.key AS namespace, u.name AS "user", required, held, required - held AS missing, required = held AS ready
FROM counted JOIN totals USING (namespace_id) JOIN live n ON n.id = namespace_id JOIN users u ON u.id = user_id""",
    "blast-radius": f"""
WITH {_USERS_OF_PRINCIPALS},
held AS (SELECT DISTINCT r.user_id, g.entity_id, g.privilege FROM grants g
  JOIN users_of_principals r USING (principal_type, principal_id))
SELECT u.name AS "user", e.kind, h.privilege, count(*) AS entities
FROM held h JOIN entities e ON e.id = h.entity_id AND e.state = 'live' JOIN users u ON u.id = h.user_id
GROUP BY ALL""",
    "redundant": """
WITH given AS (SELECT d.principal_id AS user_id, d.entity_id, d.privilege, min(n.name) AS through
  FROM grants d JOIN grants g USING (entity_id, privilege)
  JOIN memberships m ON m.user_id = d.principal_id AND m.group_id = g.principal_id JOIN groups n ON n.id = m.group_id
  WHERE d.principal_type = 'user' AND g.principal_type = 'group'
    AND least(coalesce(g.valid_until, '9999'), coalesce(m.valid_until, '9999')) >= coalesce(d.valid_until, '9999')
  GROUP BY ALL)
SELECT 'user:' || u.name AS principal, e.kind || ':' || e.key AS entity, privilege, 'group:' || through AS through
FROM given JOIN entities e ON e.id = entity_id AND e.state = 'live' JOIN users u ON u.id = user_id""",
    "guardrails": f"""
WITH {_USERS_OF_PRINCIPALS},
places AS (SELECT r.guardrail, r.privilege, r.group_id, e.id AS place_id FROM guardrails r JOIN entities e USING (kind, key)
  WHERE r.form = 'forbid'),
inside AS (SELECT DISTINCT id AS entity_id, unnest([id, namespace_id, application_id]) AS place_id FROM entities
  WHERE state <> 'deleted'),
hits AS (SELECT p.guardrail, p.group_id, g.entity_id, g.privilege, g.principal_type, g.principal_id FROM grants g
  JOIN inside i USING (entity_id) JOIN places p ON p.place_id = i.place_id AND p.privilege = g.privilege),
names AS (SELECT 'user' AS principal_type, id AS principal_id, 'user:' || name AS principal FROM users
  UNION ALL SELECT 'group', id, 'group:' || name FROM groups),
forbidden AS (SELECT h.guardrail, r.user_id, h.entity_id, h.privilege, min(n.principal) AS through FROM hits h
  JOIN users_of_principals r USING (principal_type, principal_id) JOIN names n USING (principal_type, principal_id)
  SEMI JOIN memberships m ON m.group_id = h.group_id AND m.user_id = r.user_id GROUP BY ALL),
holders AS (SELECT g.entity_id, g.privilege, count(DISTINCT r.user_id) AS holders FROM grants g
  JOIN users_of_principals r USING (principal_type, principal_id) GROUP BY ALL)
SELECT f.guardrail, 'user:' || u.name AS principal, e.kind || ':' || e.key AS entity, f.privilege, f.through FROM forbidden f
  JOIN users u ON u.id = f.user_id JOIN entities e ON e.id = f.entity_id
UNION ALL SELECT r.guardrail, '', e.kind || ':' || e.key, r.privilege, '' FROM guardrails r
  JOIN entities e ON e.kind = r.kind AND e.state <> 'deleted'
  LEFT JOIN holders h ON h.entity_id = e.id AND h.privilege = r.privilege
  WHERE r.form = 'require' AND coalesce(h.holders, 0) < r.at_least""",
    "unused": f"""
WITH {_USERS_OF_PRINCIPALS},
first AS (SELECT min(first_day)::DATE AS day FROM uses),
since AS (SELECT strftime(greatest(day, DATE '{AT:%Y-%m-%d}' - 90), '%Y-%m-%d') AS day FROM first),
names AS (SELECT 'user' AS principal_type, id AS principal_id, 'user:' || name AS principal FROM users
  UNION ALL SELECT 'group', id, 'group:' || name FROM groups)
SELECT u.name AS "user", e.kind || ':' || e.key AS entity, g.privilege, n.principal AS through, g.granted_at,
  coalesce(s.last_day, '') AS last_use
FROM grants g JOIN entities e ON e.id = g.entity_id AND e.state = 'live'
  JOIN users_of_principals r USING (principal_type, principal_id) LEFT JOIN uses s ON s.user_id = r.user_id
  AND s.entity_id = g.entity_id JOIN users u ON u.id = r.user_id JOIN names n USING (principal_type, principal_id)
WHERE coalesce(s.last_day, '') < (SELECT day FROM since)""",
    "drift": """
WITH states AS (SELECT UNNEST([1, 2]) AS state),
active AS (SELECT state, user_id, "user" FROM past_users JOIN states ON from_revision <= state
  AND coalesce(until_revision > state, TRUE) WHERE is_active),
principals AS (SELECT state, 'user' AS principal_type, user_id AS principal_id, user_id FROM active
  UNION ALL SELECT state, 'group', group_id, user_id FROM past_memberships m JOIN active a USING (user_id)
  WHERE m.from_revision <= state AND coalesce(m.until_revision > state, TRUE)),
held AS (SELECT DISTINCT p.user_id, g.entity_id, g.privilege, state FROM past_grants g
  JOIN principals p USING (principal_type, principal_id)
  WHERE g.from_revision <= state AND coalesce(g.until_revision > state, TRUE)),
changed AS (SELECT user_id, entity_id, privilege, max(state) = 2 AS after FROM held GROUP BY ALL HAVING count(*) = 1)
SELECT a."user", e.kind || ':' || e.key AS entity, c.privilege, NOT c.after AS before, c.after
FROM changed c JOIN active a ON a.user_id = c.user_id AND a.state = 2 JOIN past_addresses e USING (entity_id)""",
    "outliers": f"""
WITH {_USERS_OF_PRINCIPALS},
large AS (SELECT m.group_id, count(*) AS members FROM memberships m SEMI JOIN users u ON u.id = m.user_id GROUP BY ALL
  HAVING count(*) >= 5),
held AS (SELECT DISTINCT r.user_id, g.entity_id, g.privilege FROM grants g
  JOIN users_of_principals r USING (principal_type, principal_id) JOIN entities e ON e.id = g.entity_id AND e.state = 'live'),
counted AS (SELECT m.group_id, h.entity_id, h.privilege, count(*) AS holders FROM held h
  JOIN memberships m USING (user_id) GROUP BY ALL),
few AS (SELECT c.*, l.members FROM counted c JOIN large l USING (group_id) WHERE c.holders <= 0.2 * l.members + 1e-9
  AND NOT EXISTS (FROM grants g WHERE g.principal_type = 'group' AND g.principal_id = c.group_id
    AND g.entity_id = c.entity_id AND g.privilege = c.privilege))
SELECT u.name AS "user", n.name AS "group", e.kind || ':' || e.key AS entity, f.privilege, f.holders, f.members
FROM few f JOIN memberships m USING (group_id) JOIN held h ON h.user_id = m.user_id AND h.entity_id = f.entity_id
  AND h.privilege = f.privilege JOIN users u ON u.id = m.user_id JOIN groups n ON n.id = f.group_id
  JOIN entities e ON e.id = f.entity_id""",
}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="console-bench-") as folder:
        results = [measure_analyses(Path(folder)), measure_snapshot(Path(folder))]
    return 0 if all(results) else 1


def measure_analyses(folder: Path) -> bool:
    large = folder / "large"
    try:
        write_parquet_tenant(large, LARGE)
        seconds, is_within_limits = _measure_visibility(large)
        is_within_limits &= _compare_with_duckdb("delete-readiness", large, max_share=1)
        for name in ("blast-radius", "redundant", "drift"):
            is_within_limits &= _compare_with_duckdb(name, large, max_share=1)
        # 100 million rows
        is_within_limits &= _compare_with_duckdb("unused", large, max_share=0.5, rounds=1)
        is_within_limits &= _compare_with_duckdb("guardrails", large, max_share=1.5)
        small = folder / "small"
        write_parquet_tenant(small, SMALL)
        is_within_limits &= _compare_with_duckdb("outliers", small, max_share=1.5, size=SMALL)
        is_within_limits &= _measure_impact(large)
        everyone = folder / "everyone"
        add_group_of_everyone(large, everyone, LARGE)
        return _measure_group_of_everyone(everyone, seconds) and is_within_limits
    finally:
        stop_spark()


def _measure_visibility(tenant: Path) -> tuple[float, bool]:
    """Return the seconds of a warm run, and whether the limits are met."""
    write_table_of_tenant = _table_writer("visibility", tenant)
    with measure_peak_memory() as peak:
        write_table_of_tenant()
    is_within_limits = _print_figure(
        "visibility, memory of all processes", peak.gigabytes, LARGE_GIGABYTES, "GB"
    )
    is_within_limits &= _compare_with_duckdb("visibility", tenant, max_share=0.35)
    return _seconds(write_table_of_tenant), is_within_limits


def _compare_with_duckdb(
    name: str, tenant: Path, *, max_share: float, size: Size = LARGE, rounds: int = 3
) -> bool:
    """Compare an analysis with DuckDB. max_share: the time limit, as a share of the time of DuckDB."""
    is_within_limits = compare(
        f"{name} (final; {size.entities:,} entities, {size.grants:,} grants)",
        Task("DuckDB", _duckdb(name, tenant), 1),
        Task("Spark", _table_writer(name, tenant), 1),
        min_ratio=1 / max_share,
        rounds=rounds,
    )
    _check_same(name, tenant)
    return is_within_limits


def _measure_impact(tenant: Path) -> bool:
    seconds = _seconds(_table_writer("policy-impact", tenant, generation="existing", to_generation="final"))
    return _print_figure("policy-impact, existing to final, all operations", seconds, IMPACT_SECONDS, "s")


def _measure_group_of_everyone(tenant: Path, seconds_without: float) -> bool:
    """Measure a tenant with a group of all users that holds grants on 118,000 entities: 1.2 billion visible
    pairs.
    """
    seconds = _seconds(_table_writer("visibility", tenant))
    times = seconds / seconds_without
    return _print_figure(
        "visibility with a group of all users, times the same without", times, EVERYONE_TIMES, "times"
    )


def _table_writer(name: str, tenant: Path, **options: str) -> Callable[[], None]:
    """Return a function that writes the result table of the analysis with a warm Spark session.

    options: of the analysis; by default, the generation is `final`.
    """
    analysis = ANALYSES[name]
    output = analysis.outputs[0]
    module, _, function = output.build.partition(":")

    def write() -> None:
        spark = spark_session(master="local[*]", memory=MEMORY)
        analysis_input = AnalysisInput(
            read_snapshot(spark, str(tenant), extra_tables=analysis.extra_tables),
            {"generation": "final", "share": str(DEFAULT_SHARE), "from_revision": "1"} | options,
            AT,
        )
        with release_temporary():
            write_table(
                getattr(import_module(module), function)(analysis_input),
                output.table,
                _spark_folder(tenant, name),
            )

    return write


def _duckdb(name: str, tenant: Path) -> Callable[[], None]:
    def write() -> None:
        with duckdb.connect(
            config={
                "threads": os.cpu_count(),
                "memory_limit": f"{LARGE_GIGABYTES}GB",
                "temp_directory": str(tenant / "spill"),
            }
        ) as database:
            for table in (*SNAPSHOT_TABLES, *ANALYSES[name].extra_tables):
                database.execute(
                    f"CREATE VIEW {table.name} AS SELECT * FROM '{tenant}/{table.name}/*.parquet'"
                )
            key = ", ".join(f'"{column}"' for column in ANALYSES[name].rows.key)
            database.execute(
                f"COPY (FROM ({_SQL[name]}) ORDER BY {key}) TO '{tenant}/{name}.duckdb' "
                "(FORMAT parquet, WRITE_BLOOM_FILTER false)"
            )

    return write


def _spark_folder(tenant: Path, name: str) -> str:
    return str(tenant / f"{name}.spark")


def _check_same(name: str, tenant: Path) -> None:
    """Raise AssertionError if the numbers of the rows or the sums of their hashes differ, for which no rows are kept."""
    columns = ", ".join(f'"{column}"::VARCHAR' for column in ANALYSES[name].rows.column_names)
    with duckdb.connect() as database:
        by_spark, by_duckdb = (
            database.execute(
                f"SELECT count(*), sum(hash({columns})::HUGEINT) FROM read_parquet('{files}')"
            ).fetchone()
            for files in (f"{_spark_folder(tenant, name)}/*.parquet", f"{tenant}/{name}.duckdb")
        )
    assert by_spark == by_duckdb, f"Spark and DuckDB disagree on {name}: {by_spark} and {by_duckdb}"
    print(f"    {name}: {by_spark[0]:,} rows, the same in both", flush=True)


def measure_snapshot(folder: Path) -> bool:
    """Compare a snapshot of the large tenant in PostgreSQL with `psql \\copy`."""
    with bench_console(SNAPSHOT_URI=str(folder / "snapshots")):
        from benchmarks import tenants

        tenants.write_tenant(LARGE)
        psql_copy = Task("psql \\copy", lambda: _copy_with_psql(folder), 1)
        full = Task("a full snapshot", _take_full_snapshot, 1)
        results = [
            compare("snapshot from PostgreSQL", psql_copy, full, min_ratio=1 / 3, rounds=3),
            compare(
                "snapshot after one revoked grant",
                full,
                Task("an advanced snapshot", _advance_snapshot, 1),
                min_ratio=5,
                rounds=3,
            ),
        ]
        return all(results)


def _copy_with_psql(folder: Path) -> None:
    tables = (
        "entities_entity",
        "grants_user",
        "auth_group",
        "grants_user_groups",
        "grants_usergrant",
        "grants_groupgrant",
    )
    commands = [part for table in tables for part in ("-c", f"\\copy {table} TO '{folder}/{table}.txt'")]
    subprocess.run(
        [
            postgresql_folder() / "psql",
            "-q",
            os.environ["DATABASE_URL"].replace("postgres://", "postgresql://"),
            *commands,
        ],
        check=True,
    )


def _take_full_snapshot() -> None:
    from django.conf import settings

    shutil.rmtree(settings.SNAPSHOT_URI, ignore_errors=True)
    _take_snapshot()


def _advance_snapshot() -> None:
    """Revoke a grant and take a snapshot. Raise AssertionError if more than 5 % of its bytes are written."""
    from grants.change_set import ChangeSet, Revoke
    from grants.changes import apply
    from grants.models import UserGrant
    from tests.support.authors import COMMAND

    key = next(UserGrant.objects.order_by("pk")[:1].grant_keys())
    apply(ChangeSet.of(Revoke(*key)), author=COMMAND)
    folder = _take_snapshot()
    files = [path.stat() for path in folder.rglob("*.parquet")]
    written = sum(file.st_size for file in files if file.st_nlink == 1)
    assert written <= 0.05 * sum(file.st_size for file in files), f"{written:,} bytes were written"


def _take_snapshot() -> Path:
    from analytics.snapshots.snapshot import lease_snapshot

    with lease_snapshot() as snapshot:
        return Path(snapshot.path)


def _seconds(call: Callable[[], None]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _print_figure(title: str, figure: float, maximum: float, unit: str) -> bool:
    mark = "ok " if figure <= maximum else "LOW"
    print(f"{mark} {title}: {figure:.1f} {unit} (at most {maximum:g})", flush=True)
    return figure <= maximum


if __name__ == "__main__":
    sys.exit(main())
