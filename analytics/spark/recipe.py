"""What an analysis module is given to build one of its tables."""

from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from analytics.spark.schemas import Tables


@dataclass(frozen=True, slots=True)
class Recipe:
    """earlier: the analysis's tables that were written before this one, by name, read back from where they were written."""

    tables: Tables
    generation: str
    to_generation: str = ""
    namespace: str = ""
    earlier: dict[str, DataFrame] = field(default_factory=dict)
