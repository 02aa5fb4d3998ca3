"""Analyses against DuckDB, which is asked the same in SQL of the same Parquet files with the same cores; and the snapshot
against `psql \\copy` of the same rows."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import duckdb

from analytics.analyses import ANALYSES
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.schemas import read_snapshot, read_table, write_table
from analytics.spark.session import spark_session, stop_spark
from analytics.tables import SNAPSHOT_TABLES
from authzconsole.ops.machine import postgresql_folder
from authzconsole.ops.postgres import postgresql
from benchmarks.memory import peak_bytes
from benchmarks.parquet_tenants import add_group_of_everyone, tenant_parquet
from benchmarks.ratios import Way, compare
from benchmarks.size import Size

MEMORY = "3g"
LARGE = Size(entities=1_000_000, namespaces=200, users=10_000, groups=500, grants=2_000_000)
VERY_LARGE = Size(entities=10_000_000, namespaces=2_000, users=50_000, groups=2_000, grants=20_000_000)
LARGE_GIGABYTES, VERY_LARGE_GIGABYTES = 6, 12
VERY_LARGE_TIMES, EVERYONE_TIMES, IMPACT_SECONDS = 15, 2, 300

# whom a grant reaches
_REACHED = """
reached AS (SELECT 'user' AS principal_type, id AS principal_id, id AS user_id FROM users
  UNION ALL SELECT 'group', m.group_id, m.user_id FROM memberships m SEMI JOIN users u ON u.id = m.user_id)"""
_SQL = {
    "visibility": f"""
WITH {_REACHED},
held AS (SELECT DISTINCT r.user_id, g.entity_id FROM (SELECT DISTINCT principal_type, principal_id, entity_id FROM grants) g
  JOIN reached r USING (principal_type, principal_id)),
around AS (SELECT h.user_id, e.id, e.kind, e.namespace_id, e.application_id FROM held h JOIN entities e ON e.id = h.entity_id),
seen AS (SELECT user_id, id FROM around WHERE kind NOT IN ('instance', 'namespace', 'application', 'kerberosprincipal')
  UNION ALL SELECT DISTINCT user_id, application_id FROM around WHERE application_id IS NOT NULL
  UNION ALL SELECT DISTINCT user_id, namespace_id FROM around WHERE namespace_id IS NOT NULL),
counted AS (SELECT s.user_id, e.kind, e.namespace_id, count(*) AS visible
  FROM seen s JOIN entities e ON e.id = s.id AND e.state = 'live' GROUP BY ALL)
SELECT u.name AS "user", c.kind, n.key AS namespace, c.visible
FROM counted c JOIN users u ON u.id = c.user_id JOIN entities n ON n.id = c.namespace_id ORDER BY ALL""",
    "delete-readiness": f"""
WITH {_REACHED},
admin AS (SELECT DISTINCT principal_type, principal_id, entity_id FROM grants WHERE privilege = 'ADMIN'),
live AS (SELECT id, key FROM entities WHERE kind = 'namespace' AND state = 'live'),
held AS (SELECT DISTINCT r.user_id, a.entity_id FROM admin a JOIN reached r USING (principal_type, principal_id)),
counted AS (SELECT h.user_id, e.namespace_id, count(*) FILTER (e.state = 'live') AS held
  FROM held h JOIN entities e ON e.id = h.entity_id WHERE e.namespace_id IS NOT NULL GROUP BY ALL),
needed AS (SELECT namespace_id, count(*) FILTER (state = 'live') AS required
  FROM entities WHERE namespace_id IS NOT NULL GROUP BY ALL)
SELECT n.key AS namespace, u.name AS "user", required, held, required - held AS missing, required = held AS ready
FROM counted JOIN needed USING (namespace_id) JOIN live n ON n.id = namespace_id JOIN users u ON u.id = user_id ORDER BY ALL""",
}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="console-bench-") as folder:
        kept = [analyses(Path(folder)), snapshot(Path(folder))]
    return 0 if all(kept) else 1


def analyses(folder: Path) -> bool:
    large, very_large = folder / "large", folder / "very-large"
    try:
        tenant_parquet(large, LARGE)
        seconds, kept = _visibility(large)
        kept &= _against_duckdb("delete-readiness", large, at_most=1.5)
        kept &= _impact(large)
        everyone = folder / "everyone"
        add_group_of_everyone(large, everyone, LARGE)
        kept &= _everyone(everyone, seconds)
        tenant_parquet(very_large, VERY_LARGE)
        return _very_large(very_large, seconds) and kept
    finally:
        stop_spark()


def _visibility(tenant: Path) -> tuple[float, bool]:
    """Its seconds, warm; and whether it kept what is wanted."""
    written = _written("visibility", tenant)
    with peak_bytes() as peak:
        written()
    kept = _said("visibility, memory of all processes", peak.gigabytes, LARGE_GIGABYTES, "GB")
    kept &= _against_duckdb("visibility", tenant, at_most=0.35)
    return _seconds(written), kept


def _against_duckdb(name: str, tenant: Path, *, at_most: float) -> bool:
    """at_most: of DuckDB's time."""
    ours, duck = _written(name, tenant), _duckdb(name, tenant)
    ours(), duck()
    _check_same(name, tenant)
    pairs = f"{LARGE.entities:,} entities, {LARGE.grants:,} grants"
    return compare(f"{name} (final; {pairs})", Way("DuckDB", duck, 1), Way("Spark", ours, 1), at_least=1 / at_most, rounds=3)


def _impact(tenant: Path) -> bool:
    seconds = _seconds(_written("policy-impact", tenant, generation="existing", to_generation="final"))
    return _said("policy-impact, existing to final, all operations", seconds, IMPACT_SECONDS, "s")


def _everyone(tenant: Path, seconds_without: float) -> bool:
    """A tenant where a group of all users holds a grant on 118,000 entities: 1.2 billion visible pairs."""
    seconds = _seconds(_written("visibility", tenant))
    times = seconds / seconds_without
    return _said("visibility, with a group of everyone, times the same without", times, EVERYONE_TIMES, "times")


def _very_large(tenant: Path, seconds_of_large: float) -> bool:
    with peak_bytes() as peak:
        seconds = _seconds(_written("visibility", tenant))
    size = f"{VERY_LARGE.entities:,} entities, {VERY_LARGE.grants:,} grants"
    kept = _said(f"visibility ({size}), memory of all processes", peak.gigabytes, VERY_LARGE_GIGABYTES, "GB")
    return _said(f"visibility ({size}), times the smaller", seconds / seconds_of_large, VERY_LARGE_TIMES, "times") and kept


def _written(name: str, tenant: Path, generation: str = "final", to_generation: str = "") -> Callable[[], None]:
    """Writes the first table of the analysis, with the session that a worker keeps warm."""
    output = ANALYSES[name].outputs[0]
    module, _, function = output.build.partition(":")

    def write() -> None:
        spark = spark_session(master="local[*]", memory=MEMORY)
        analysis_input = AnalysisInput(read_snapshot(spark, str(tenant)), generation, to_generation)
        write_table(getattr(import_module(module), function)(analysis_input), output.table, _ours(tenant, name))

    return write


def _duckdb(name: str, tenant: Path) -> Callable[[], None]:
    def write() -> None:
        with duckdb.connect(config={"threads": os.cpu_count(), "temp_directory": str(tenant / "spill")}) as database:
            for table in SNAPSHOT_TABLES:
                database.execute(f"CREATE VIEW {table.name} AS SELECT * FROM '{tenant}/{table.name}/*.parquet'")
            database.execute(f"COPY ({_SQL[name]}) TO '{tenant}/{name}.duckdb' (FORMAT parquet)")

    return write


def _ours(tenant: Path, name: str) -> str:
    return str(tenant / f"{name}.spark")


def _check_same(name: str, tenant: Path) -> None:
    ours, theirs = f"read_parquet('{_ours(tenant, name)}/*.parquet')", f"read_parquet('{tenant}/{name}.duckdb')"
    with duckdb.connect() as database:
        differing = database.execute(
            f"SELECT count(*) FROM ((FROM {ours} EXCEPT ALL FROM {theirs}) UNION ALL (FROM {theirs} EXCEPT ALL FROM {ours}))"
        ).fetchone()[0]
    assert differing == 0, f"Spark and DuckDB disagree on {differing:,} rows of {name}"
    frame = read_table(spark_session(master="local[*]", memory=MEMORY), ANALYSES[name].rows, _ours(tenant, name))
    print(f"    {name}: {frame.count():,} rows, the same in both", flush=True)


def snapshot(folder: Path) -> bool:
    """Of the large tenant in PostgreSQL."""
    with postgresql() as url:
        os.environ |= {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "authzconsole.settings",
                       "SNAPSHOT_URI": str(folder / "taken")}
        import django

        django.setup()
        from django.core.management import call_command

        from benchmarks import tenants

        call_command("migrate", verbosity=0)
        tenants.tenant_write(LARGE)
        copied = Way("psql \\copy", lambda: _copied(url, folder), 1)
        return compare("snapshot from PostgreSQL", copied, Way("snapshot", _taken, 1), at_least=1 / 3, rounds=3)


def _copied(url: str, folder: Path) -> None:
    tables = ("entities_entity", "grants_user", "auth_group", "grants_user_groups", "grants_usergrant", "grants_groupgrant")
    commands = [part for table in tables for part in ("-c", f"\\copy {table} TO '{folder}/{table}.txt'")]
    subprocess.run([postgresql_folder() / "psql", "-q", url.replace("postgres://", "postgresql://"), *commands], check=True)


def _taken() -> None:
    from django.conf import settings

    from analytics.snapshots.snapshot import lease_snapshot

    shutil.rmtree(settings.SNAPSHOT_URI, ignore_errors=True)
    with lease_snapshot() as taken:
        assert taken.size_bytes


def _seconds(call: Callable[[], None]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _said(title: str, figure: float, at_most: float, unit: str) -> bool:
    mark = "ok " if figure <= at_most else "LOW"
    print(f"{mark} {title}: {figure:.1f} {unit} (at most {at_most:g})", flush=True)
    return figure <= at_most


if __name__ == "__main__":
    sys.exit(main())
