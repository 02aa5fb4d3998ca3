"""The registry of analyses: their names, options, output tables and figures, and how their pages show them.

To add an analysis: add its tables to `analytics.tables`, its Spark functions to a module in
`analytics.spark`, and a member of `AnalysisName` and an `Analysis` here. Its page, downloads, REST resources,
command and schedule follow from the registry.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

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
    changes_table,
)
from entities.errors import Refusal


class AnalysisName(StrEnum):
    """The names of the analyses, as stored in runs and written in URLs and commands."""

    DELETE_READINESS = "delete-readiness"
    VISIBILITY = "visibility"
    POLICY_IMPACT = "policy-impact"
    GHOST_GRANTS = "ghost-grants"
    STRANDED = "stranded"


class AnalysisError(Refusal, ValueError):
    """An invalid request for an analysis or its report. The message names the valid choices.

    field: the invalid option, if there is exactly one.
    """

    def __init__(self, message: str, *, field: str = ""):
        self.field = field
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Output:
    """One table that an analysis writes.

    build: `module:function` in analytics.spark, called with an `AnalysisInput`; its `earlier` contains the
    preceding tables.
    question: the heading of the table on its page.
    first_sort: the column that sorts the table when its page opens; empty for the key. Files are always
    sorted by the key.
    needs_administrator: each row names an entity that needs another administrator, so the page offers to
    grant ADMIN on it.
    """

    table: Table
    build: str
    question: str
    first_sort: str = ""
    needs_administrator: bool = False


@dataclass(frozen=True, slots=True)
class Analysis:
    """One analysis.

    options: those of generation, to_generation and namespace that it takes.
    outputs: written in this order; the first is the table that `--output` writes, the last is the overview.
    detail: the pairs behind the counts of the first output; it may have as many rows as users times entities.
        None if the rows of the first output are the pairs.
    detail_rows: an SQL expression over the first output; its sum is the number of rows of the detail.
    figures: the figures at the head of the report: by name, the output table and an SQL aggregate over it.
    """

    name: AnalysisName | str
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
        """The table of differences between the first output and that of the previous run."""
        return changes_table(self.rows)

    @property
    def written_outputs(self) -> tuple[Output, ...]:
        """The outputs that the Spark functions build, with the detail last."""
        return self.outputs if self.detail is None else (*self.outputs, self.detail)

    @property
    def tables(self) -> tuple[Table, ...]:
        return (*(output.table for output in self.written_outputs), self.changes)

    def table(self, name: str) -> Table:
        """Return the table of that name. Raise AnalysisError if there is none."""
        for table in self.tables:
            if table.name == name:
                return table
        raise AnalysisError(
            f"{self.name} has no table `{name}`; its tables are {', '.join(t.name for t in self.tables)}"
        )

    def output(self, table: str) -> Output | None:
        """Return the output that writes the table of that name; None for the table of changes."""
        return next((output for output in self.written_outputs if output.table.name == table), None)


ANALYSES: dict[str, Analysis] = {
    analysis.name: analysis
    for analysis in (
        Analysis(
            name=AnalysisName.DELETE_READINESS,
            title="Delete readiness",
            question="Who can delete which namespace, and which grants are missing?",
            options=("generation", "namespace"),
            outputs=(
                Output(
                    READINESS,
                    "analytics.spark.analyses.readiness:rows",
                    "How far is each user from deleting a namespace?",
                ),
                Output(
                    READINESS_NAMESPACES,
                    "analytics.spark.analyses.readiness:namespaces",
                    "Who can delete which namespace?",
                ),
            ),
            detail=Output(
                READINESS_DETAIL,
                "analytics.spark.analyses.readiness:detail",
                "Which grants does each user lack?",
            ),
            detail_rows="missing",
            figures={
                "namespaces": ("namespaces", "count(*)"),
                "namespaces_somebody_can_delete": (
                    "namespaces",
                    "count(*) filter (not nobody_can_delete)",
                ),
                "namespaces_nobody_can_delete": ("namespaces", "count(*) filter (nobody_can_delete)"),
                "pairs": ("rows", "count(*)"),
                "pairs_ready": ("rows", "count(*) filter (ready)"),
            },
        ),
        Analysis(
            name=AnalysisName.VISIBILITY,
            title="Visibility",
            question="Which live entities does each user see in lists?",
            options=("generation",),
            outputs=(
                Output(
                    VISIBILITY,
                    "analytics.spark.analyses.visibility:rows",
                    "How many entities of each kind does each user see?",
                ),
                Output(
                    VISIBILITY_NAMESPACES,
                    "analytics.spark.analyses.visibility:namespaces",
                    "How many entities of each namespace does each user see?",
                ),
            ),
            detail=Output(
                VISIBILITY_DETAIL,
                "analytics.spark.analyses.visibility:detail",
                "Which entities does each user see?",
            ),
            detail_rows="visible",
            figures={
                "users_who_see_something": ("namespaces", 'count(DISTINCT "user")'),
                "namespaces_with_something_visible": (
                    "namespaces",
                    "count(DISTINCT namespace) filter (namespace <> '')",
                ),
                "pairs_visible": ("namespaces", "coalesce(sum(visible), 0)::BIGINT"),
            },
        ),
        Analysis(
            name=AnalysisName.POLICY_IMPACT,
            title="Policy impact",
            question="Which permissions would users gain and lose under another generation?",
            options=("generation", "to_generation"),
            outputs=(
                Output(
                    IMPACT,
                    "analytics.spark.analyses.policy_impact:rows",
                    "Which users gain and lose which operation?",
                ),
                Output(
                    IMPACT_OPERATIONS,
                    "analytics.spark.analyses.policy_impact:operations",
                    "How many users gain and lose each operation?",
                ),
            ),
            detail=Output(
                IMPACT_DETAIL, "analytics.spark.analyses.policy_impact:detail", "Which decisions change?"
            ),
            detail_rows="gained + lost",
            figures={
                "answers_gained": ("operations", "coalesce(sum(gained), 0)::BIGINT"),
                "answers_lost": ("operations", "coalesce(sum(lost), 0)::BIGINT"),
                "operations_affected": ("operations", "count(*)"),
                "users_affected": ("rows", 'count(DISTINCT "user")'),
            },
        ),
        Analysis(
            name=AnalysisName.GHOST_GRANTS,
            title="Ghost grants",
            question="Which grants are on addresses that are not live?",
            # the result is the same in every generation
            options=("generation",),
            outputs=(
                Output(
                    GHOSTS,
                    "analytics.spark.analyses.ghost_grants:rows",
                    "Which grants are on addresses that are not live?",
                ),
                Output(
                    GHOST_KINDS,
                    "analytics.spark.analyses.ghost_grants:kinds",
                    "Which kinds of addresses have ghost grants?",
                ),
            ),
            figures={
                "grants_on_planned_addresses": (
                    "kinds",
                    "coalesce(sum(grants) filter (state = 'planned'), 0)::BIGINT",
                ),
                "grants_on_deleted_addresses": (
                    "kinds",
                    "coalesce(sum(grants) filter (state = 'deleted'), 0)::BIGINT",
                ),
                "addresses_with_ghost_grants": ("kinds", "coalesce(sum(entities), 0)::BIGINT"),
            },
        ),
        Analysis(
            name=AnalysisName.STRANDED,
            title="Stranded entities",
            question="Which live entities have no ADMIN holder, or only one?",
            # the result is the same in every generation
            options=("generation",),
            outputs=(
                Output(
                    STRANDED,
                    "analytics.spark.analyses.stranded:rows",
                    "Which entities need another administrator?",
                    first_sort="admins",
                    needs_administrator=True,
                ),
                Output(
                    STRANDED_KINDS,
                    "analytics.spark.analyses.stranded:kinds",
                    "How many entities of each kind need another administrator?",
                ),
            ),
            figures={
                "live_entities": ("kinds", "coalesce(sum(live), 0)::BIGINT"),
                "entities_nobody_administers": ("kinds", "coalesce(sum(nobody), 0)::BIGINT"),
                "entities_one_user_administers": ("kinds", "coalesce(sum(one), 0)::BIGINT"),
            },
        ),
    )
}


def analysis_by_name(name: str) -> Analysis:
    """Return the analysis with exactly this name. Raise AnalysisError with the valid names."""
    if name in ANALYSES:
        return ANALYSES[name]
    raise AnalysisError(
        f"`{name}` is not an analysis; the analyses are {', '.join(ANALYSES)}", field="analysis"
    )
