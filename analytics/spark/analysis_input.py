"""The argument of every function that builds a table of an analysis."""

from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from analytics.spark.schemas import Tables


@dataclass(frozen=True, slots=True)
class AnalysisInput:
    """The snapshot of the tenant and the options of the run.

    earlier: the tables that the same analysis wrote before, by name, read back from storage.
    """

    tables: Tables
    generation: str
    to_generation: str = ""
    namespace: str = ""
    earlier: dict[str, DataFrame] = field(default_factory=dict)
