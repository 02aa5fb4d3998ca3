"""The `delete-readiness` analysis: the ADMIN grants for deleting each namespace that each user holds or
lacks.

The engine evaluates this as a change (engine.rules.admin_rules). A user with ADMIN anywhere in the namespace
is a candidate, and gains each entity on which ADMIN is required and held. The detail table contains only the
missing pairs of user and entity.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.engine import HolderCounts, LiveNamespaces, PairTable, evaluate_rules
from analytics.spark.engine.encode import namespaces_with_required
from analytics.spark.engine.rules import (
    CANDIDATE,
    admin_rules,
    missing_admin_rules,
    namespace_deletion_requirement,
)
from analytics.spark.sorted_table import SortedTable
from analytics.tables import READINESS_DETAIL
from entities.vocabulary import KINDS


def rows(analysis_input: AnalysisInput) -> SortedTable:
    """Return tables.READINESS: one row per live namespace and active user with ADMIN on it or on any address
    in it.
    """
    kinds = _required_kinds(analysis_input)
    return evaluate_rules(
        analysis_input.tables,
        admin_rules(kinds),
        HolderCounts(kinds, candidate_operation=CANDIDATE),
        namespaces=LiveNamespaces(analysis_input.option("namespace")),
    )


def namespaces(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.READINESS_NAMESPACES: one row per live namespace, including namespaces in which no user
    holds ADMIN.
    """
    live_namespaces = LiveNamespaces(analysis_input.option("namespace"))
    required = namespaces_with_required(
        analysis_input.tables, live_namespaces, _required_kinds(analysis_input)
    )
    by_namespace = (
        analysis_input.earlier["rows"]
        .groupBy("namespace")
        .agg(
            F.count("*").alias("users"),
            F.count_if(F.col("ready")).alias("users_ready"),
            F.min("missing").alias("fewest_missing"),
            F.min(F.struct("missing", "user")).getField("user").alias("nearest_user"),
        )
    )
    users_ready = F.coalesce("users_ready", F.lit(0))
    return (
        required.withColumnRenamed("name", "namespace")
        .join(by_namespace, on="namespace", how="left")
        .select(
            "namespace",
            "required",
            F.coalesce("users", F.lit(0)).alias("users"),
            users_ready.alias("users_ready"),
            "fewest_missing",
            "nearest_user",
            (users_ready == 0).alias("nobody_can_delete"),
        )
    )


def detail(analysis_input: AnalysisInput) -> SortedTable:
    """Return tables.READINESS_DETAIL: one row per entity on which a user of tables.READINESS lacks ADMIN;
    sum(missing) rows.
    """
    counts = analysis_input.earlier["rows"].select(
        F.col("namespace").alias("name"), F.col("missing").alias("pairs")
    )
    rules = missing_admin_rules(_required_kinds(analysis_input))
    return evaluate_rules(
        analysis_input.tables,
        rules,
        PairTable(READINESS_DETAIL, counts),
        namespaces=LiveNamespaces(analysis_input.option("namespace")),
    )


def _required_kinds(analysis_input: AnalysisInput) -> tuple[str, ...]:
    """Return the kinds of entities on which ADMIN is required for the deletion of their namespace."""
    requirement = namespace_deletion_requirement(analysis_input.option("generation"))
    kinds_inside = KINDS if requirement.kinds_inside is None else requirement.kinds_inside
    return tuple(
        kind for kind in KINDS if (requirement.on_namespace if kind == "namespace" else kind in kinds_inside)
    )
