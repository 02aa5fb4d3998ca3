"""The argument of every function that builds a table of an analysis."""

from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from analytics.spark.schemas import Tables


@dataclass(frozen=True, slots=True)
class Recipe:
    """The tenant and the options of the run.

    earlier: the tables of the same analysis that were written before, by name, as they are read back from storage.
    """

    tables: Tables
    generation: str
    to_generation: str = ""
    namespace: str = ""
    earlier: dict[str, DataFrame] = field(default_factory=dict)
