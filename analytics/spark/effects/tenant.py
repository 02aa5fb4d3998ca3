"""The marked tenant: a snapshot with the changes of an effect, restricted to the users and namespaces that
they affect.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.arrow import arrow_schema
from analytics.spark.effects.rules import ABSENT, AFTER, EffectQuestion, marked_privilege
from analytics.spark.schemas import Tables
from analytics.tables import ENTITIES, MEMBERSHIPS, USERS

LIVE = "live"
# The group of all affected users.
EVERYONE_ID = -9
# The columns that identify a grant.
GRANT_KEY = ("principal_type", "principal_id", "entity_id", "privilege")


@dataclass(frozen=True, slots=True)
class MarkedPrincipal:
    """A principal of an affected user, and the states in which its grants count for its members in the marked
    tenant.

    principal_type: `user` or `group`. marked_id: the id of the principal in the marked tenant. states: as in
    EffectQuestion.
    """

    principal_type: str
    principal_id: int
    marked_id: int
    states: str


@dataclass(frozen=True, slots=True)
class ChangedEntity:
    """An entity of which the state changes. states: those in which it is not live. kind: its kind.

    has_subtree: the live entities inside it change in the same way. removes_grants: their grants are removed.
    """

    entity_id: int
    kind: str
    states: str
    has_subtree: bool = False
    removes_grants: bool = False


@dataclass(frozen=True, slots=True)
class TenantChanges:
    """The affected users, their groups, and the changes. It grows with the directory and the changes, not
    with the tenant.

    users: (id, name). memberships: (user id, marked id of the group). principals: the users and groups with
    their marked ids.
    revoked: grants in the form of GRANT_KEY. added: grants of the marked tenant, with marked ids and
    privileges.
    entities: rows of tables.ENTITIES for addresses that the changes name and that are not registered.
    changed_entities: the entities of which the state changes. The group EVERYONE_ID then has all users as
    members.
    """

    users: list[tuple[int, str]]
    memberships: list[tuple[int, int]]
    principals: list[MarkedPrincipal]
    revoked: list[tuple[str, int, int, str]]
    added: list[tuple[str, int, int, str]]
    entities: list[tuple]
    changed_entities: list[ChangedEntity] = field(default_factory=list)


def marked_tables(tables: Tables, changes: TenantChanges, question: EffectQuestion) -> Tables:
    """Return the marked tenant of a snapshot.

    If the snapshot is not small, one job restricts it to the affected namespaces.
    """
    spark = tables.users.sparkSession

    def frame(rows: list, schema: pa.Schema) -> DataFrame:
        columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        return spark.createDataFrame(pa.table(arrays, schema=schema))

    principals = frame(
        [astuple(principal) for principal in changes.principals],
        _schema(*GRANT_KEY[:2], "marked_id", "states"),
    )
    key_schema = _schema(*GRANT_KEY)
    entities = tables.entities
    if changes.entities:
        entities = entities.unionByName(frame(changes.entities, arrow_schema(ENTITIES)))
    absent = [
        (entity, _rows_of(entity, entities).select(F.col("id").alias("entity_id")))
        for entity in changes.changed_entities
    ]
    # the principals have no more rows than the directory
    grants = tables.grants.join(F.broadcast(principals), on=["principal_type", "principal_id"], how="inner")
    if changes.revoked:
        grants = _without_revoked(grants, frame(changes.revoked, key_schema), GRANT_KEY)
    for entity, rows in absent:
        if entity.removes_grants:
            grants = _without_revoked(grants, rows, ["entity_id"])
    grants = grants.select(
        "principal_type",
        F.col("marked_id").alias("principal_id"),
        "entity_id",
        F.concat_ws(" ", "privilege", "states").alias("privilege"),
    )
    if changes.added:
        grants = grants.unionByName(frame(changes.added, key_schema))
    for entity, rows in absent:
        grants = grants.unionByName(
            rows.select(
                F.lit("group").alias("principal_type"),
                F.lit(EVERYONE_ID).cast("bigint").alias("principal_id"),
                "entity_id",
                F.lit(marked_privilege(ABSENT, entity.states)).alias("privilege"),
            )
        )
    if changes.changed_entities:
        # an entity that is not live in some states is live in the others
        is_changed = F.col("id").isin([entity.entity_id for entity in changes.changed_entities])
        entities = entities.withColumn("state", F.when(is_changed, F.lit(LIVE)).otherwise(F.col("state")))
    marked_tenant = replace(
        tables,
        entities=entities,
        users=frame(changes.users, arrow_schema(USERS)),
        grants=grants,
        memberships=frame(changes.memberships, arrow_schema(MEMBERSHIPS)),
    )
    return (
        marked_tenant
        if tables.is_small or question.has_effect_everywhere
        else _affected_part(marked_tenant, question)
    )


def _without_revoked(grants: DataFrame, revoked: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the grants without those that the changes revoke; they stay in the states without the changes.
    key: of the rows.
    """
    remaining = F.when(F.col("is_revoked"), F.translate("states", AFTER, "")).otherwise(F.col("states"))
    marked = grants.join(revoked.withColumn("is_revoked", F.lit(True)), on=list(key), how="left")
    return marked.withColumn("states", remaining).where(F.col("states") != "").drop("is_revoked")


def _rows_of(entity: ChangedEntity, entities: DataFrame) -> DataFrame:
    """Return the rows of the entity, and of the live entities inside it if their states change too."""
    is_changed = F.col("id") == entity.entity_id
    if entity.has_subtree and entity.kind in ("namespace", "application"):
        is_changed |= (F.col(f"{entity.kind}_id") == entity.entity_id) & (F.col("state") == LIVE)
    return entities.where(is_changed)


def _schema(*names: str) -> pa.Schema:
    return pa.schema([(name, pa.int64() if name.endswith("_id") else pa.string()) for name in names])


def _affected_part(tables: Tables, question: EffectQuestion) -> Tables:
    """Return the tenant without the namespaces in which no grant is changed, unless a grant on the instance
    is changed.

    Collects the ids of the affected namespaces, which are part of the directory.
    """
    is_changed = ~F.col("privilege").endswith(marked_privilege("", question.states))
    of_entities = tables.entities.select(
        F.col("id").alias("entity_id"), (F.col("kind") == "instance").alias("is_instance"), "namespace_id"
    )
    affected = (
        tables.grants.where(is_changed)
        .select("entity_id")
        .distinct()
        .join(of_entities, on="entity_id")
        .select("is_instance", "namespace_id")
        .distinct()
        .toArrow()
    )
    if any(affected["is_instance"].to_pylist()):
        return tables
    namespaces = tables.users.sparkSession.createDataFrame(
        pa.table({"namespace_id": affected["namespace_id"].drop_null()})
    )
    inside = tables.entities.join(F.broadcast(namespaces), on="namespace_id", how="left_semi")
    outside = tables.entities.where(F.col("namespace_id").isNull())
    return replace(tables, entities=reduce(DataFrame.unionByName, (inside, outside)))
