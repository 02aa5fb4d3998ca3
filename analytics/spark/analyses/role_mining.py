"""The `role-mining` analysis: roles that would replace the direct grants of active users on live entities.

With the option `prefer`, these are roles that people would define (`analytics.spark.team_roles`). By default, they are the fewest roles
that together give exactly these grants. A permission is a pair of entity and privilege. A user who alone has a permission needs a
role without other users, which can give all direct grants of this user; Spark finds these roles. Only the grants of the other users are
collected, and `analytics.spark.role_cover` covers them in the memory of the driver.
"""

from collections import defaultdict
from datetime import timedelta

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from analytics.analyses import ROLES_OF_TEAMS, AnalysisError
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.joins import direct_grants, live_addresses, live_entities, user_names
from analytics.spark.past import PRINCIPAL, moment_at, past_addresses, state_at
from analytics.spark.role_cover import fewest_roles
from analytics.spark.schemas import Tables
from analytics.spark.team_roles import enough, team_roles
from entities.vocabulary import Privilege
from grants.policies.principals import ROLE_PREFIX

PRIVILEGES = list(Privilege)
# Their cover takes about 2 GB in the driver.
MAX_COLLECTED_GRANTS = 5_000_000


def members(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.ROLE_MEMBERS: one row per role and user."""
    direct = _direct_grants(analysis_input)
    if analysis_input.option("prefer") == ROLES_OF_TEAMS:
        held = _permissions_by_user(direct)
        found = team_roles(held, _teams(analysis_input.tables), surplus=_surplus(analysis_input))
        roles = [sorted(role.users) for role in found]
    else:
        roles = _fewest_roles(direct)
    numbers = [number for number, users in enumerate(roles, start=1) for _ in users]
    rows = pa.table(
        {
            "role": pa.array(numbers, pa.int64()),
            "user_id": pa.array([user for users in roles for user in users], pa.int64()),
        }
    )
    created = direct.sparkSession.createDataFrame(rows)
    return created.join(user_names(analysis_input.tables), on="user_id").select("role", "user")


def _fewest_roles(direct: DataFrame) -> list[list[int]]:
    """Return the users of each role, for the fewest roles that give exactly the direct grants."""
    users_alone = _users_alone(direct)
    shared = direct.join(users_alone, on="user_id", how="left_anti")
    covered = fewest_roles(_permissions_by_user(shared))
    roles = [(role.assignments, sorted(role.users)) for role in covered]
    roles += [(grants, [user]) for user, grants in _pairs(users_alone, "user_id", "grants")]
    return [users for _, users in sorted(roles, key=lambda role: (-role[0], role[1]))]


def _teams(tables: Tables) -> list[list[int]]:
    """Return the active members of each group, by the name of the group."""
    teams: dict[int, list[int]] = {}
    ordered = tables.memberships.join(
        tables.groups.select(F.col("id").alias("group_id"), "name"), on="group_id"
    ).join(tables.users.select(F.col("id").alias("user_id")), on="user_id", how="left_semi")
    for group, user in _pairs(ordered.orderBy("name", "user_id"), "group_id", "user_id"):
        teams.setdefault(group, []).append(user)
    return list(teams.values())


def _surplus(analysis_input: AnalysisInput) -> float:
    return float(analysis_input.option("surplus") or 0)


def permissions(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.ROLE_PERMISSIONS: one row per role, entity and privilege.

    The permissions of a role are those that all of its users have; with a surplus, this share of them may lack one.
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
        .where(F.col("holders") >= enough(F.col("users"), _surplus(analysis_input)))
        .join(live_addresses(analysis_input.tables).hint("merge"), on="entity_id")
        .select("role", "entity", "privilege")
    )


def coverage(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.ROLE_COVERAGE: one row per role."""
    members = analysis_input.earlier["members"]
    given = detail(analysis_input)
    first = given.groupBy("user", "entity", "privilege").agg(F.min("role").alias("role"))
    new = first.groupBy("role").agg(F.count("*").alias("new"))
    held = given.groupBy("role").agg(F.count("*").alias("held"))
    sizes = _sizes(analysis_input)
    total = _direct_grants(analysis_input).agg(F.count("*").alias("grants"))
    before = Window.orderBy("role").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        sizes.join(held, on="role")
        .join(new, on="role", how="left")
        .join(_largest_teams(analysis_input.tables, members), on="role", how="left")
        .crossJoin(total)
        .select(
            "role",
            "users",
            F.sum(F.coalesce("new", F.lit(0))).over(before).alias("covered"),
            "grants",
            (F.col("users") * F.col("permissions") - F.col("held")).alias("surplus"),
            F.coalesce("team", F.lit("")).alias("team"),
            F.coalesce("team_users", F.lit(0)).alias("team_users"),
            F.coalesce("team_members", F.lit(0)).alias("team_members"),
        )
    )


def _largest_teams(tables: Tables, members: DataFrame) -> DataFrame:
    """Return role, team, team_users and team_members: the group that shares most users with each role."""
    grouped = _members_of_groups(tables)
    sizes = grouped.groupBy("group").agg(F.count("*").alias("team_members"))
    shared = members.join(grouped, on="user").groupBy("role", "group").agg(F.count("*").alias("team_users"))
    # the smallest of these: most users of the role, fewest other members, first name
    order = F.struct(-F.col("team_users"), "team_members", "group")
    return (
        shared.join(sizes, on="group")
        .groupBy("role")
        .agg(F.min_by(F.struct("group", "team_users", "team_members"), order).alias("best"))
        .select("role", F.col("best.group").alias("team"), "best.team_users", "best.team_members")
    )


def _members_of_groups(tables: Tables) -> DataFrame:
    """Return group and user, the names of each group and its active members. A role is no group."""
    return (
        tables.memberships.join(
            tables.users.select(F.col("id").alias("user_id"), F.col("name").alias("user")), on="user_id"
        )
        .join(
            tables.groups.select(F.col("id").alias("group_id"), F.col("name").alias("group")), on="group_id"
        )
        .where(~F.col("group").startswith(ROLE_PREFIX))
        .select("group", "user")
    )


def _sizes(analysis_input: AnalysisInput) -> DataFrame:
    """Return role, users and permissions: the numbers of each role."""
    earlier = analysis_input.earlier
    return (
        earlier["members"]
        .groupBy("role")
        .agg(F.count("*").alias("users"))
        .join(earlier["permissions"].groupBy("role").agg(F.count("*").alias("permissions")), on="role")
    )


def rows(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.ROLES: the size of each role, and the first group by name with exactly its users."""
    earlier = analysis_input.earlier
    groups = (
        _members_of_groups(analysis_input.tables)
        .groupBy("group")
        .agg(_digest("user"))
        .groupBy("digest")
        .agg(F.min("group").alias("group"))
    )
    digests = earlier["members"].groupBy("role").agg(_digest("user"))
    return (
        _sizes(analysis_input)
        .join(earlier["coverage"].select("role", "surplus"), on="role")
        .join(digests, on="role")
        .join(groups, on="digest", how="left")
        .select(
            "role",
            "users",
            "permissions",
            (F.col("users") * F.col("permissions") - F.col("surplus")).alias("assignments"),
            F.coalesce("group", F.lit("")).alias("group"),
        )
    )


def detail(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.ROLE_DETAIL: every direct grant that each role gives."""
    earlier = analysis_input.earlier
    given = (
        earlier["members"]
        .join(earlier["permissions"], on="role")
        .select("role", "user", "entity", "privilege")
    )
    if not _surplus(analysis_input):
        return given
    direct = (
        _direct_grants(analysis_input)
        .join(user_names(analysis_input.tables), on="user_id")
        .join(live_addresses(analysis_input.tables).hint("merge"), on="entity_id")
    )
    return given.join(
        direct.select("user", "entity", "privilege"), on=["user", "entity", "privilege"], how="left_semi"
    ).select("role", "user", "entity", "privilege")


def _direct_grants(analysis_input: AnalysisInput) -> DataFrame:
    """Return user_id, entity_id and privilege of the direct grants of active users on live entities.

    With the option `stable_days`, a grant is included only if the user already held the privilege that many days ago,
    directly or through a group.
    """
    tables = analysis_input.tables
    live = live_entities(tables, analysis_input.option("namespace"))
    grants = direct_grants(tables).where(F.col("principal_type") == "user")
    direct = (
        grants.select(F.col("principal_id").alias("user_id"), "entity_id", "privilege")
        .join(tables.users.select(F.col("id").alias("user_id")), on="user_id", how="left_semi")
        .join(live.hint("merge"), on="entity_id", how="left_semi")
    )
    days = analysis_input.option("stable_days")
    return _held_already(direct, analysis_input, int(days)) if days else direct


def _held_already(held: DataFrame, analysis_input: AnalysisInput, days: int) -> DataFrame:
    """Return the rows of user_id, entity_id and privilege that the user already held that many days ago.

    The tables of the history have their own ids of users and entities, so this joins by name and address.
    """
    tables, columns = analysis_input.tables, ["user_id", "entity_id", "privilege"]
    assert analysis_input.at is not None
    users = tables.extra["past_users"].where(F.col("until_revision").isNull() & F.col("is_active"))
    moment = moment_at(tables, analysis_input.at - timedelta(days=days))
    then = state_at(tables, users.select("user_id"), then=moment)
    past = (
        held.join(user_names(tables), on="user_id")
        .join(users.select(F.col("user_id").alias("past_user"), "user"), on="user")
        .join(live_addresses(tables).hint("merge"), on="entity_id")
        .join(past_addresses(tables).withColumnRenamed("entity_id", "past_entity").hint("merge"), on="entity")
        .select(*columns, "past_user", "past_entity")
    )
    return (
        past.join(then.principals.withColumnRenamed("user_id", "past_user"), on="past_user")
        .join(
            then.grants.withColumnRenamed("entity_id", "past_entity").hint("merge"),
            on=[*PRINCIPAL, "past_entity", "privilege"],
            how="left_semi",
        )
        .select(*columns)
        .distinct()
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
