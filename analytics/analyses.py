"""The analyses that the console offers, as data: a further one adds a row here and a module in `analytics.spark`."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from analytics.tables import (
    GHOST_KINDS,
    GHOSTS,
    IMPACT,
    IMPACT_DETAIL,
    IMPACT_OPERATIONS,
    READINESS,
    READINESS_DETAIL,
    READINESS_NAMESPACES,
    STRANDED,
    STRANDED_KINDS,
    VISIBILITY,
    VISIBILITY_DETAIL,
    VISIBILITY_NAMESPACES,
    Table,
    changes_of,
)


class AnalysisError(ValueError):
    """What was asked cannot be run as asked; the message says what can. field: what is at fault, where that is one thing."""

    def __init__(self, message: str, *, field: str = ""):
        self.field = field
        super().__init__(message)


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
    detail: the pairs behind the first; its size may be users times entities. None where the rows are the pairs already.
    detail_rows: over the first output, an SQL expression whose sum says how many rows the detail has.
    figures: what the head of the report shows, each an SQL aggregate over one of the outputs.
    """

    name: str
    title: str
    question: str
    options: tuple[str, ...]
    outputs: tuple[Output, ...]
    figures: Mapping[str, tuple[str, str]]
    detail: Output | None = None
    detail_rows: str = "0"

    @property
    def rows(self) -> Table:
        return self.outputs[0].table

    @property
    def overview(self) -> Table:
        return self.outputs[-1].table

    @property
    def changes(self) -> Table:
        """What became of the first output since the run before."""
        return changes_of(self.rows)

    @property
    def tables(self) -> tuple[Table, ...]:
        written = [output.table for output in (*self.outputs, self.detail) if output is not None]
        return (*written, self.changes)

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
                Output(READINESS, "analytics.spark.analyses.readiness:rows"),
                Output(READINESS_NAMESPACES, "analytics.spark.analyses.readiness:namespaces"),
            ),
            detail=Output(READINESS_DETAIL, "analytics.spark.analyses.readiness:detail"),
            detail_rows="missing",
            figures=MappingProxyType({
                "namespaces": ("namespaces", "count(*)"),
                "namespaces_somebody_can_delete": ("namespaces", "count(*) filter (not nobody_can_delete)"),
                "namespaces_nobody_can_delete": ("namespaces", "count(*) filter (nobody_can_delete)"),
                "pairs": ("rows", "count(*)"),
                "pairs_ready": ("rows", "count(*) filter (ready)"),
            }),
        ),
        Analysis(
            name="visibility",
            title="Visibility",
            question="Who sees what: which live entities does listing show to whom?",
            options=("generation",),
            outputs=(
                Output(VISIBILITY, "analytics.spark.analyses.visibility:rows"),
                Output(VISIBILITY_NAMESPACES, "analytics.spark.analyses.visibility:namespaces"),
            ),
            detail=Output(VISIBILITY_DETAIL, "analytics.spark.analyses.visibility:detail"),
            detail_rows="visible",
            figures=MappingProxyType({
                "users_who_see_something": ("namespaces", 'count(DISTINCT "user")'),
                "namespaces_with_something_visible": ("namespaces", "count(DISTINCT namespace) filter (namespace <> '')"),
                "pairs_visible": ("namespaces", "coalesce(sum(visible), 0)::BIGINT"),
            }),
        ),
        Analysis(
            name="policy-impact",
            title="Policy impact",
            question="What would another generation of rules give to people, and what would it take from them?",
            options=("generation", "to_generation"),
            outputs=(
                Output(IMPACT, "analytics.spark.analyses.policy_impact:rows"),
                Output(IMPACT_OPERATIONS, "analytics.spark.analyses.policy_impact:operations"),
            ),
            detail=Output(IMPACT_DETAIL, "analytics.spark.analyses.policy_impact:detail"),
            detail_rows="gained + lost",
            figures=MappingProxyType({
                "answers_gained": ("operations", "coalesce(sum(gained), 0)::BIGINT"),
                "answers_lost": ("operations", "coalesce(sum(lost), 0)::BIGINT"),
                "operations_affected": ("operations", "count(*)"),
                "users_affected": ("rows", 'count(DISTINCT "user")'),
            }),
        ),
        Analysis(
            name="ghost-grants",
            title="Ghost grants",
            question="Which grants are on addresses where nothing lives?",
            # the same by the rules of every generation
            options=("generation",),
            outputs=(
                Output(GHOSTS, "analytics.spark.analyses.ghost_grants:rows"),
                Output(GHOST_KINDS, "analytics.spark.analyses.ghost_grants:kinds"),
            ),
            figures=MappingProxyType({
                "grants_on_planned_addresses": ("kinds", "coalesce(sum(grants) filter (state = 'planned'), 0)::BIGINT"),
                "grants_on_deleted_addresses": ("kinds", "coalesce(sum(grants) filter (state = 'deleted'), 0)::BIGINT"),
                "addresses_with_ghost_grants": ("kinds", "coalesce(sum(entities), 0)::BIGINT"),
            }),
        ),
        Analysis(
            name="stranded",
            title="Stranded entities",
            question="Which entities does nobody administer, or one person alone?",
            # the same by the rules of every generation
            options=("generation",),
            outputs=(
                Output(STRANDED, "analytics.spark.analyses.stranded:rows"),
                Output(STRANDED_KINDS, "analytics.spark.analyses.stranded:kinds"),
            ),
            figures=MappingProxyType({
                "live_entities": ("kinds", "coalesce(sum(live), 0)::BIGINT"),
                "entities_nobody_administers": ("kinds", "coalesce(sum(nobody), 0)::BIGINT"),
                "entities_one_user_administers": ("kinds", "coalesce(sum(one), 0)::BIGINT"),
            }),
        ),
    )
}


def analysis_named(name: str) -> Analysis:
    """The analysis of exactly that name. Raises AnalysisError naming those there are."""
    if name in ANALYSES:
        return ANALYSES[name]
    raise AnalysisError(f"`{name}` is not an analysis; there is {', '.join(ANALYSES)}", field="analysis")
