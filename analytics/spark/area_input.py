"""Restrict the input of an analysis to what the rows of an area depend on.

INVARIANT: the rows of a user in a namespace depend on the grants of this user and of the groups of this user, on the entities
of this namespace, and on those outside of all namespaces, such as the instance.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.engine.rows import Array
from analytics.spark.schemas import Tables
from entities.frozen import frozen


@frozen
class Area:
    """A part of a result: the rows of these users in these namespaces, by name. None: of all of them.

    The namespace of entities outside of all namespaces is empty.
    """

    users: frozenset[str] | None
    namespaces: frozenset[str] | None

    def mask(self, rows: pa.Table) -> Array:
        """Return for each row whether it is in the area. rows: with texts as dictionaries."""
        mask = np.ones(rows.num_rows, bool)
        for column, names in (("user", self.users), ("namespace", self.namespaces)):
            if names is not None:
                texts = dictionary_of(rows[column])
                is_named = pc.is_in(texts.dictionary, value_set=pa.array(sorted(names), pa.string()))
                mask &= is_named.to_numpy(zero_copy_only=False)[texts.indices.to_numpy()]
        return mask


def area_input(analysis_input: AnalysisInput, area: Area) -> AnalysisInput:
    """Return the input for the rows of an area. They come with other rows, of entities outside of all namespaces."""
    tables = analysis_input.tables
    if area.users is not None:
        tables = _of_users(tables, area.users)
    if area.namespaces is not None:
        tables = replace(tables, entities=_inside(tables.entities, area.namespaces))
    return replace(analysis_input, tables=tables, earlier={})


def _of_users(tables: Tables, names: frozenset[str]) -> Tables:
    users = tables.users.where(F.col("name").isin(*names)) if names else tables.users.limit(0)
    keys = F.broadcast(users.select(F.col("id").alias("user_id")))
    memberships = tables.memberships.join(keys, on="user_id", how="left_semi")
    groups = F.broadcast(
        memberships.select(F.lit("group").alias("principal_type"), F.col("group_id").alias("principal_id"))
    )
    holders = groups.unionByName(
        users.select(F.lit("user").alias("principal_type"), F.col("id").alias("principal_id"))
    )
    grants, revealed = (
        rows.join(F.broadcast(holders), on=["principal_type", "principal_id"], how="left_semi")
        for rows in (tables.grants, tables.revealed)
    )
    return replace(tables, users=users, memberships=memberships, grants=grants, revealed=revealed)


def _inside(entities: DataFrame, names: frozenset[str]) -> DataFrame:
    """Return the entities of namespaces, and those outside of all namespaces. Runs a job that reads the namespaces."""
    is_named = (F.col("kind") == "namespace") & F.col("key").isin(*names)
    keys = [row.id for row in entities.where(is_named).select("id").collect()] if names else []
    return entities.where(F.col("namespace_id").isin(*keys) | F.col("namespace_id").isNull())


def dictionary_of(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return the values of a column as one array."""
    if not column.num_chunks:
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
    return pa.concat_arrays(column.chunks)
