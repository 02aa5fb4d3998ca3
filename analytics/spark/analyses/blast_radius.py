"""The `blast-radius` analysis: the live entities on which each active user holds which privilege, directly or through
groups.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.engine import ChangeCounts, PairTable, evaluate_rules
from analytics.spark.engine.rules import CHANGEABLE, REACHED, privilege_rules, reach_rules
from analytics.spark.sorted_table import SortedTable
from analytics.tables import BLAST_RADIUS, BLAST_RADIUS_DETAIL, Column, ColumnType, Table
from entities.vocabulary import Privilege

# The counts of `reach_rules`, one row for each rule.
_REACH = Table(
    "reach",
    (
        *(Column(name, ColumnType.TEXT) for name in ("user", "operation", "namespace")),
        Column("gained", ColumnType.LONG),
    ),
    ("user", "operation", "namespace"),
)


def rows(analysis_input: AnalysisInput) -> SortedTable:
    """Return tables.BLAST_RADIUS: one row for each user, kind and privilege that the user holds."""
    counts = ChangeCounts(BLAST_RADIUS, by_namespace=False, gained_column="entities")
    return evaluate_rules(analysis_input.tables, privilege_rules(), counts)


def namespaces(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.BLAST_RADIUS_NAMESPACES: one row for each user and namespace in which the user holds something."""
    counts = evaluate_rules(
        analysis_input.tables, reach_rules(), ChangeCounts(_REACH, merge_kinds=True)
    ).frame
    return counts.groupBy("user", "namespace").agg(
        *(
            F.sum(F.when(F.col("operation") == operation, F.col("gained")).otherwise(0)).alias(name)
            for name, operation in (("entities", REACHED), ("changeable", CHANGEABLE))
        )
    )


def people(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.BLAST_RADIUS_PEOPLE: one row for each user who holds something."""
    by_privilege = (
        analysis_input.earlier["rows"]
        .groupBy("user")
        .agg(
            *(
                F.sum(F.when(F.col("privilege") == privilege.value, F.col("entities")).otherwise(0)).alias(
                    privilege.value.lower()
                )
                for privilege in Privilege
            )
        )
    )
    totals = (
        analysis_input.earlier["namespaces"]
        .groupBy("user")
        .agg(
            F.sum("entities").alias("entities"),
            F.sum("changeable").alias("changeable"),
            F.count_if(F.col("namespace") != "").alias("namespaces"),
        )
    )
    return totals.join(by_privilege, on="user")


def detail(analysis_input: AnalysisInput) -> SortedTable:
    """Return tables.BLAST_RADIUS_DETAIL: one row for each user, entity and privilege that the user holds on it;
    sum(entities) rows.
    """
    counts = analysis_input.earlier["rows"].select(
        F.col("user").alias("name"), F.col("entities").alias("pairs")
    )
    return evaluate_rules(analysis_input.tables, privilege_rules(), PairTable(BLAST_RADIUS_DETAIL, counts))
