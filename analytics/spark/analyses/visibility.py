"""The `visibility` analysis: the live entities that each active user may `list`. `get` does not count."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.engine import ChangeCounts, PairTable, evaluate_rules
from analytics.spark.engine.rules import visibility_rules
from analytics.spark.sorted_table import SortedTable
from analytics.tables import VISIBILITY, VISIBILITY_DETAIL


def rows(analysis_input: AnalysisInput) -> SortedTable:
    """Return tables.VISIBILITY: one row for each user, kind and namespace in which the user sees an entity."""
    rules = visibility_rules(analysis_input.option("generation"))
    return evaluate_rules(analysis_input.tables, rules, ChangeCounts(VISIBILITY, gained_column="visible"))


def namespaces(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.VISIBILITY_NAMESPACES: the counts of tables.VISIBILITY summed over all kinds."""
    return analysis_input.earlier["rows"].groupBy("user", "namespace").agg(F.sum("visible").alias("visible"))


def detail(analysis_input: AnalysisInput) -> SortedTable:
    """Return tables.VISIBILITY_DETAIL: one row per user and visible entity; sum(visible) rows."""
    counts = analysis_input.earlier["rows"].select(
        F.col("user").alias("name"), F.col("visible").alias("pairs")
    )
    rules = visibility_rules(analysis_input.option("generation"))
    return evaluate_rules(analysis_input.tables, rules, PairTable(VISIBILITY_DETAIL, counts))
