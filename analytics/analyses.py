"""The analyses that the console offers, as data: a further one adds a row here and a module in `analytics.spark`."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from analytics.tables import READINESS, READINESS_DETAIL, READINESS_NAMESPACES, Table


class AnalysisError(ValueError):
    """What was asked cannot be run as asked; the message says what can."""


@dataclass(frozen=True, slots=True)
class Output:
    """One table that an analysis writes.

    build: `module:function` in analytics.spark, called with a `Recipe`; the tables named before it are in its `earlier`.
    """

    table: Table
    build: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """options: which of generation, to_generation and namespace it takes.

    outputs: written in this order; the first is what `--output` writes, the last the overview.
    detail: the pairs behind the first; its size may be users times entities.
    detail_rows: the column of the first output whose sum says how many rows the detail has.
    figures: what the head of the report shows, each an SQL aggregate over one of the outputs.
    """

    name: str
    title: str
    question: str
    options: tuple[str, ...]
    outputs: tuple[Output, ...]
    detail: Output
    detail_rows: str
    figures: Mapping[str, tuple[str, str]]

    @property
    def rows(self) -> Table:
        return self.outputs[0].table

    @property
    def overview(self) -> Table:
        return self.outputs[-1].table

    @property
    def tables(self) -> tuple[Table, ...]:
        return (*(output.table for output in self.outputs), self.detail.table)

    def table(self, name: str) -> Table:
        for table in self.tables:
            if table.name == name:
                return table
        raise AnalysisError(f"{self.name} has no table `{name}`; its tables are {', '.join(t.name for t in self.tables)}")


ANALYSES: dict[str, Analysis] = {
    analysis.name: analysis
    for analysis in (
        Analysis(
            name="delete-readiness",
            title="Delete readiness",
            question="Who could delete which namespace, and what stands in the way?",
            options=("generation", "namespace"),
            outputs=(
                Output(READINESS, "analytics.spark.readiness:rows"),
                Output(READINESS_NAMESPACES, "analytics.spark.readiness:namespaces"),
            ),
            detail=Output(READINESS_DETAIL, "analytics.spark.readiness:detail"),
            detail_rows="missing",
            figures=MappingProxyType({
                "namespaces": ("namespaces", "count(*)"),
                "namespaces_somebody_can_delete": ("namespaces", "count(*) filter (not nobody_can_delete)"),
                "namespaces_nobody_can_delete": ("namespaces", "count(*) filter (nobody_can_delete)"),
                "pairs": ("rows", "count(*)"),
                "pairs_ready": ("rows", "count(*) filter (ready)"),
            }),
        ),
    )
}


def analysis_named(name: str) -> Analysis:
    """The analysis of exactly that name. Raises AnalysisError naming those there are."""
    if name in ANALYSES:
        return ANALYSES[name]
    raise AnalysisError(f"`{name}` is not an analysis; there is {', '.join(ANALYSES)}")
