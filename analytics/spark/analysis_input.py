"""The argument of every function that builds a table of an analysis."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame

from analytics.spark.schemas import Tables


@dataclass(frozen=True, slots=True, eq=False)
class AnalysisInput:
    """The snapshot of the tenant and the options of the run.

    options: by name; see `analytics.analyses.OPTIONS`. at: the time of the snapshot.
    earlier: the tables that the same analysis wrote before, by name, read back from storage.
    """

    tables: Tables
    options: Mapping[str, str]
    at: datetime | None = None
    earlier: dict[str, DataFrame] = field(default_factory=dict)

    def option(self, name: str) -> str:
        """Return the value of an option; empty if it has none."""
        return self.options.get(name, "")
