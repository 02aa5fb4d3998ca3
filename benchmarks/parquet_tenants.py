"""Very large tenants as snapshots, written by DuckDB: a few huge namespaces, and a few groups with most of
the grants.

The same size and seed give the same tenant: every random number is a hash of the row number.
"""

from pathlib import Path

import duckdb

from benchmarks.size import Size
from entities.vocabulary import Privilege

# exponents of u, uniform in [0, 1): u * u selects the first of n with a probability of 1 / sqrt(n)
_HUGE, _LARGE = 4, 2
_KINDS = (
    "dataset",
    "dataset",
    "dataset",
    "stream",
    "artifact",
    "dataset_module",
    "dataset_type",
    "securekey",
)
_PRIVILEGES = [privilege.value for privilege in Privilege]


def write_parquet_tenant(folder: Path, size: Size) -> None:
    """Write one folder of Parquet files per table, with the columns of analytics.tables."""
    database = duckdb.connect(
        config={"temp_directory": str(folder / "spill"), "preserve_insertion_order": False}
    )
    database.execute(
        f"CREATE MACRO rng(n, salt) AS (hash(n * 64 + salt + {7 << 50}) >> 11) / 9007199254740992.0"
    )
    first_application, first_other = 2 + size.namespaces, 2 + size.namespaces + size.applications
    database.execute(f"""
        CREATE TABLE applications AS
        SELECT n AS id, 2 + floor({size.namespaces} * pow(rng(n, 1), {_HUGE}))::BIGINT AS namespace_id
        FROM range({first_application}, {first_other}) t(n)""")
    tables = {
        "entities": f"""
            SELECT 1::BIGINT AS id, 'instance' AS kind, 'cdap' AS key, NULL::BIGINT AS parent_id, NULL::BIGINT AS namespace_id,
              NULL::BIGINT AS application_id, 'live' AS state
            UNION ALL SELECT n, 'namespace', 'ns' || n, 1, n, NULL, 'live' FROM range(2, {first_application}) t(n)
            UNION ALL SELECT id, 'application', 'ns' || namespace_id || '.app' || id, namespace_id, namespace_id, id, 'live'
              FROM applications
            UNION ALL SELECT n, 'program', 'ns' || a.namespace_id || '.app' || a.id || '.workflow.p' || n, a.id, a.namespace_id,
              a.id, 'live'
              FROM range({first_other}, {size.entities + 1}) t(n)
              JOIN applications a ON a.id = {first_application} + floor({size.applications} * rng(n, 2))::BIGINT
              WHERE rng(n, 3) < 0.25
            UNION ALL SELECT n, kind, 'ns' || namespace_id || '.' || kind || n, namespace_id, namespace_id, NULL,
              CASE WHEN rng(n, 4) < 0.02 THEN 'deleted' ELSE 'live' END
              FROM (SELECT n, list_extract({list(_KINDS)}, 1 + floor({len(_KINDS)} * rng(n, 5))::BIGINT) AS kind,
                      2 + floor({size.namespaces} * pow(rng(n, 6), {_HUGE}))::BIGINT AS namespace_id
                    FROM range({first_other}, {size.entities + 1}) t(n) WHERE rng(n, 3) >= 0.25)""",
        "users": f"SELECT n AS id, 'user' || n AS name FROM range(1, {size.users + 1}) t(n)",
        "inactive_users": "SELECT 0::BIGINT AS id, '' AS name LIMIT 0",
        "guardrails": """
            SELECT 'g' || n AS guardrail, 'forbid' AS form, 'block' AS level, 0::BIGINT AS side, 'ADMIN' AS privilege,
              'namespace' AS kind, 'ns' || n AS key, n AS group_id, 0::BIGINT AS at_least FROM range(2, 20) t(n)
            UNION ALL SELECT 'two-admins', 'require', 'block', 0, 'ADMIN', 'namespace', '', NULL, 2""",
        "unexpected": "SELECT '' AS guardrail, '' AS principal, '' AS entity, '' AS operation LIMIT 0",
        "groups": f"SELECT n AS id, 'group' || n AS name FROM range(1, {size.groups + 1}) t(n)",
        "role_groups": "SELECT 0::BIGINT AS role_id, 0::BIGINT AS group_id LIMIT 0",
        "memberships": f"""
            SELECT DISTINCT n AS user_id, 1 + floor({size.groups} * pow(rng(n, 20 + k), {_LARGE}))::BIGINT AS group_id,
              NULL::VARCHAR AS valid_until
            FROM range(1, {size.users + 1}) t(n), range(6) s(k) WHERE k < floor(7 * rng(n, 7))""",
        "grants": f"""
            SELECT DISTINCT principal_type, principal_id, 2 + floor({size.entities - 1} * rng(n, 8))::BIGINT AS entity_id,
              list_extract({_PRIVILEGES}, 1 + floor({len(_PRIVILEGES)} * rng(n, 9))::BIGINT) AS privilege, '' AS reason,
              '2026-01-01T00:00:00Z' AS granted_at, NULL::VARCHAR AS valid_until, '' AS pattern
            FROM (SELECT n, CASE WHEN n % 5 < 3 THEN 'user' ELSE 'group' END AS principal_type,
                    CASE WHEN n % 5 < 3 THEN 1 + floor({size.users} * rng(n, 10))::BIGINT
                      ELSE 1 + floor({size.groups} * pow(rng(n, 11), {_LARGE}))::BIGINT END AS principal_id
                  FROM range({size.grants}) t(n))""",
        "revealed": """
            SELECT '' AS principal_type, 0::BIGINT AS principal_id, 0::BIGINT AS entity_id, '' AS privilege LIMIT 0""",
    } | _extra_tables(size)
    for name, query in tables.items():
        (folder / name).mkdir(parents=True)
        database.execute(
            f"COPY ({query}) TO '{folder / name}' (FORMAT parquet, COMPRESSION zstd, FILE_SIZE_BYTES '64MB', "
            "OVERWRITE_OR_IGNORE)"
        )
        database.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder / name}/*.parquet'")
    database.close()


def _extra_tables(size: Size) -> dict[str, str]:
    """Return the queries of the tables about uses and the past, of the other tables.

    One in four grants has a use by one user. The journal has two lines: one grant in a hundred ended with the second one, and one
    in a hundred began with it.
    """
    ages = "SELECT *, hash(principal_type, principal_id, entity_id, privilege) % 100 AS age FROM grants"
    lasting = "1::BIGINT AS from_revision, NULL::BIGINT AS until_revision"
    unlimited = "NULL::VARCHAR AS valid_from, NULL::VARCHAR AS valid_until"
    return {
        "uses": f"""
            SELECT DISTINCT ON (user_id, entity_id) coalesce(user_id, principal_id) AS user_id, entity_id, '2026-01-01' AS first_day,
              strftime(DATE '2026-01-01' + age::INTEGER, '%Y-%m-%d') AS last_day
            FROM ({ages}) LEFT JOIN (SELECT group_id, min(user_id) AS user_id FROM memberships GROUP BY ALL)
              ON principal_type = 'group' AND group_id = principal_id
            WHERE age % 4 = 0 ORDER BY ALL""",
        "patterns": """
            SELECT '' AS principal_type, 0::BIGINT AS principal_id, 0::BIGINT AS pattern_id, '' AS pattern, '' AS privilege,
              '' AS granted_at LIMIT 0""",
        "matches": "SELECT 0::BIGINT AS pattern_id, 0::BIGINT AS entity_id, '' AS registered_at LIMIT 0",
        "past_addresses": "SELECT id AS entity_id, kind, key FROM entities",
        "past_users": f'SELECT id AS user_id, name AS "user", TRUE AS is_active, {lasting} FROM users',
        "past_groups": f'SELECT id AS group_id, name AS "group", {lasting} FROM groups',
        "past_memberships": f"SELECT user_id, group_id, {lasting}, {unlimited} FROM memberships",
        "past_grants": f"""
            SELECT principal_type, principal_id, entity_id, privilege, CASE age WHEN 1 THEN 2 ELSE 1 END::BIGINT AS from_revision,
              CASE age WHEN 2 THEN 2 END::BIGINT AS until_revision, {unlimited} FROM ({ages})""",
        "journal": """
            SELECT n AS revision, '2026-01-0' || n || ' 00:00:00.000000' AS at, 'grant' AS action, 'benchmark' AS author
            FROM range(1, 3) t(n)""",
    }


def add_group_of_everyone(tenant: Path, folder: Path, size: Size) -> None:
    """Copy a tenant to `folder`, with a group of all users that holds READ on one in eight live entities
    outside containers.
    """
    group = size.groups + 1
    added = {
        "entities": None,
        "users": None,
        "inactive_users": None,
        "groups": f"SELECT {group}::BIGINT, 'everyone'",
        "memberships": f"SELECT id, {group}::BIGINT, NULL FROM '{tenant}/users/*.parquet'",
        "grants": f"""
            SELECT 'group', {group}::BIGINT, id, 'READ', '', '2026-01-01T00:00:00Z', NULL, '' FROM '{tenant}/entities/*.parquet'
            WHERE kind NOT IN ('instance', 'namespace', 'application') AND state = 'live' AND hash(id) % 1000 < 126""",
        "revealed": None,
    }
    with duckdb.connect() as database:
        for name, query in added.items():
            (folder / name).mkdir(parents=True)
            rows = f"FROM '{tenant}/{name}/*.parquet'" + (f" UNION ALL {query}" if query else "")
            database.execute(
                f"COPY ({rows}) TO '{folder / name}/0.parquet' (FORMAT parquet, COMPRESSION zstd)"
            )
