"""The `policy-impact` analysis: decisions that differ between two generations, for operations with a policy
in both.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.engine import ChangeCounts, PairTable, evaluate_rules
from analytics.spark.engine.rules import impact_rules
from analytics.spark.sorted_table import SortedTable
from analytics.tables import IMPACT, IMPACT_DETAIL


def rows(analysis_input: AnalysisInput) -> SortedTable:
    """Return tables.IMPACT: one row per user, kind and operation with a changed decision."""
    rules = impact_rules(analysis_input.option("generation"), analysis_input.option("to_generation"))
    return evaluate_rules(analysis_input.tables, rules, ChangeCounts(IMPACT, by_namespace=False))


def operations(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.IMPACT_OPERATIONS: the counts of tables.IMPACT summed over all users."""
    return (
        analysis_input.earlier["rows"]
        .groupBy("kind", "operation")
        .agg(F.count("*").alias("users"), F.sum("gained").alias("gained"), F.sum("lost").alias("lost"))
    )


def detail(analysis_input: AnalysisInput) -> SortedTable:
    """Return tables.IMPACT_DETAIL: one row per changed decision (user, entity, operation); sum(gained + lost)
    rows.
    """
    counts = analysis_input.earlier["rows"].select(
        F.col("user").alias("name"), (F.col("gained") + F.col("lost")).alias("pairs")
    )
    rules = impact_rules(analysis_input.option("generation"), analysis_input.option("to_generation"))
    return evaluate_rules(analysis_input.tables, rules, PairTable(IMPACT_DETAIL, counts))
