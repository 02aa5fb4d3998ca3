"""The `role-mining` analysis: the fewest roles that would replace the direct grants of active users on live entities.

Together, the roles give exactly these grants. A permission is a pair of entity and privilege. A user who alone has a permission needs a
role without other users, which can give all direct grants of this user; Spark finds these roles. Only the grants of the other users are
collected, and `analytics.spark.role_cover` covers them in the memory of the driver.
"""

from collections import defaultdict

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.analyses import AnalysisError
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.joins import live_addresses, live_entities, user_names
from analytics.spark.role_cover import fewest_roles
from entities.vocabulary import Privilege

PRIVILEGES = list(Privilege)
# Their cover takes about 2 GB in the driver.
MAX_COLLECTED_GRANTS = 5_000_000


def members(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.ROLE_MEMBERS: one row per role and user."""
    direct = _direct_grants(analysis_input)
    users_alone = _users_alone(direct)
    shared = direct.join(users_alone, on="user_id", how="left_anti")
    covered = fewest_roles(_permissions_by_user(shared))
    roles = [(role.assignments, sorted(role.users)) for role in covered]
    roles += [(grants, [user]) for user, grants in _pairs(users_alone, "user_id", "grants")]
    roles.sort(key=lambda role: (-role[0], role[1]))
    numbers = [number for number, (_, users) in enumerate(roles, start=1) for _ in users]
    rows = pa.table(
        {
            "role": pa.array(numbers, pa.int64()),
            "user_id": pa.array([user for _, users in roles for user in users], pa.int64()),
        }
    )
    created = direct.sparkSession.createDataFrame(rows)
    return created.join(user_names(analysis_input.tables), on="user_id").select("role", "user")


def permissions(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.ROLE_PERMISSIONS: one row per role, entity and privilege.

    The permissions of a role are those that all of its users have.
    """
    users = user_names(analysis_input.tables)
    roles = analysis_input.earlier["members"]
    sizes = roles.groupBy("role").agg(F.count("*").alias("users"))
    return (
        roles.join(users, on="user")
        .join(_direct_grants(analysis_input).hint("merge"), on="user_id")
        .groupBy("role", "entity_id", "privilege")
        .agg(F.count("*").alias("holders"))
        .join(sizes, on="role")
        .where(F.col("holders") == F.col("users"))
        .join(live_addresses(analysis_input.tables).hint("merge"), on="entity_id")
        .select("role", "entity", "privilege")
    )


def rows(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.ROLES: the size of each role, and the first group by name with exactly its users."""
    tables, earlier = analysis_input.tables, analysis_input.earlier
    groups = (
        tables.memberships.join(tables.users.select(F.col("id").alias("user_id"), "name"), on="user_id")
        .groupBy("group_id")
        .agg(_digest("name"))
        .join(
            tables.groups.select(F.col("id").alias("group_id"), F.col("name").alias("group")), on="group_id"
        )
        .groupBy("digest")
        .agg(F.min("group").alias("group"))
    )
    sizes = earlier["permissions"].groupBy("role").agg(F.count("*").alias("permissions"))
    return (
        earlier["members"]
        .groupBy("role")
        .agg(F.count("*").alias("users"), _digest("user"))
        .join(sizes, on="role")
        .join(groups, on="digest", how="left")
        .select(
            "role",
            "users",
            "permissions",
            (F.col("users") * F.col("permissions")).alias("assignments"),
            F.coalesce("group", F.lit("")).alias("group"),
        )
    )


def detail(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.ROLE_DETAIL: every grant that each role gives."""
    earlier = analysis_input.earlier
    return (
        earlier["members"]
        .join(earlier["permissions"], on="role")
        .select("role", "user", "entity", "privilege")
    )


def _direct_grants(analysis_input: AnalysisInput) -> DataFrame:
    """Return user_id, entity_id and privilege of the direct grants of active users on live entities."""
    tables = analysis_input.tables
    live = live_entities(tables, analysis_input.option("namespace"))
    return (
        tables.grants.where(F.col("principal_type") == "user")
        .select(F.col("principal_id").alias("user_id"), "entity_id", "privilege")
        .join(tables.users.select(F.col("id").alias("user_id")), on="user_id", how="left_semi")
        .join(live.hint("merge"), on="entity_id", how="left_semi")
    )


def _users_alone(direct: DataFrame) -> DataFrame:
    """Return user_id and the number of direct grants of each user who alone has a permission."""
    alone = (
        direct.groupBy("entity_id", "privilege")
        .agg(F.count("*").alias("holders"), F.min("user_id").alias("user_id"))
        .where(F.col("holders") == 1)
        .select("user_id")
        .distinct()
    )
    return (
        direct.join(alone, on="user_id", how="left_semi").groupBy("user_id").agg(F.count("*").alias("grants"))
    )


def _permissions_by_user(direct: DataFrame) -> dict[int, set[int]]:
    """Return the permissions of each user, as numbers. Raise AnalysisError if there are too many."""
    total = direct.count()
    if total > MAX_COLLECTED_GRANTS:
        raise AnalysisError(
            f"{total:,} direct grants would have to be compared at once, and at most {MAX_COLLECTED_GRANTS:,} can be: choose "
            "a namespace",
            field="namespace",
        )
    position = F.array_position(F.array(*map(F.lit, PRIVILEGES)), F.col("privilege")) - 1
    numbered = direct.select("user_id", (F.col("entity_id") * len(PRIVILEGES) + position).alias("permission"))
    held: dict[int, set[int]] = defaultdict(set)
    for user, permission in _pairs(numbered, "user_id", "permission"):
        held[user].add(permission)
    return held


def _pairs(frame: DataFrame, *columns: str) -> list[tuple[int, int]]:
    table = frame.select(*columns).toArrow()
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))


def _digest(name: str) -> Column:
    """Return the column `digest`, which is the same for the same set of values."""
    return F.sha2(F.to_json(F.sort_array(F.collect_set(name))), 256).alias("digest")
