"""The registry of analyses: their names, options, output tables and figures, and how their pages show them.

To add an analysis: add its tables to `analytics.tables`, its Spark functions to a module in
`analytics.spark`, and a member of `AnalysisName` and an `Analysis` here. Its page, downloads, REST resources,
command and schedule follow from the registry.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from itertools import chain

from analytics.tables import (
    BLAST_RADIUS,
    BLAST_RADIUS_DETAIL,
    BLAST_RADIUS_NAMESPACES,
    BLAST_RADIUS_PEOPLE,
    DRIFT,
    DRIFT_LINES,
    DRIFT_PEOPLE,
    GHOST_KINDS,
    GHOSTS,
    GUARDRAIL_TABLES,
    HISTORY_TABLES,
    IMPACT,
    IMPACT_DETAIL,
    IMPACT_OPERATIONS,
    MATCHES,
    OUTLIERS,
    OUTLIERS_GROUPS,
    OUTLIERS_PEOPLE,
    PATTERNS,
    READINESS,
    READINESS_DETAIL,
    READINESS_NAMESPACES,
    REDUNDANT,
    REDUNDANT_GROUPS,
    REDUNDANT_INACTIVE,
    REDUNDANT_MEMBERSHIPS,
    ROLE_COVERAGE,
    ROLE_DETAIL,
    ROLE_GROUPS,
    ROLE_MEMBERS,
    ROLE_PERMISSIONS,
    ROLES,
    STRANDED,
    STRANDED_KINDS,
    SURPLUS,
    SURPLUS_KINDS,
    SURPLUS_NARROWER,
    UNUSED,
    UNUSED_COVERAGE,
    UNUSED_GRANTS,
    UNUSED_PEOPLE,
    USES,
    VIOLATION_TOTALS,
    VIOLATIONS,
    VISIBILITY,
    VISIBILITY_DETAIL,
    VISIBILITY_NAMESPACES,
    Table,
    changes_table,
)
from entities.errors import Refusal
from entities.frozen import frozen

# a detail table can have as many rows as users times entities; commands write a larger one only with --force
DETAIL_ROWS_MOST = 100_000_000
# of the option `since`
DEFAULT_SINCE_DAYS = 90
# of the option `from_revision`
DRIFT_DAYS = 7
# of the option `prefer`
ROLES_OF_TEAMS = "teams"
# of the option `surplus`
MAX_SURPLUS = 0.5
# of the option `share`
DEFAULT_SHARE = 0.2


class AnalysisName(StrEnum):
    """The names of the analyses, as stored in runs and written in URLs and commands."""

    DELETE_READINESS = "delete-readiness"
    VISIBILITY = "visibility"
    POLICY_IMPACT = "policy-impact"
    GHOST_GRANTS = "ghost-grants"
    STRANDED = "stranded"
    BLAST_RADIUS = "blast-radius"
    REDUNDANT = "redundant"
    UNUSED = "unused"
    PATTERNS = "patterns"
    OUTLIERS = "outliers"
    DRIFT = "drift"
    ROLE_MINING = "role-mining"
    GUARDRAILS = "guardrails"


class AnalysisError(Refusal, ValueError):
    """An invalid request for an analysis or its report. The message names the valid choices.

    field: the invalid option, if there is exactly one.
    """


@frozen
class Option:
    """An option of analyses. Its value is a text; an empty one is the default.

    label, placeholder: of its field on pages. help: for commands and the API. metavar: of its value in commands. The values
    are generations, with `is_generation`, or numbers that are at least `least`. choices: of the field, with labels; the
    first one is the default. extra_tables: of the snapshot, which only runs with
    a value read.
    """

    name: str
    label: str
    help: str
    metavar: str
    placeholder: str = ""
    is_generation: bool = False
    least: int | None = None
    choices: tuple[tuple[str, str], ...] = ()
    extra_tables: tuple[Table, ...] = ()

    @property
    def analyses(self) -> str:
        """The names of the analyses that take it."""
        return ", ".join(name for name, analysis in ANALYSES.items() if self.name in analysis.options)


OPTIONS = {
    option.name: option
    for option in (
        Option(
            "generation",
            "Generation",
            "the generation to evaluate; by default the active one",
            "G",
            is_generation=True,
        ),
        Option("to_generation", "Compare with", "the generation to compare with", "G", is_generation=True),
        Option("namespace", "Namespace", "only this live namespace; by default all", "N", "Every namespace"),
        Option(
            "since",
            "Days without use",
            f"the number of days without a use; by default {DEFAULT_SINCE_DAYS}, or as many as the records cover",
            "DAYS",
            str(DEFAULT_SINCE_DAYS),
            least=1,
        ),
        Option(
            "from_revision",
            "From revision",
            f"the first revision; by default that of {DRIFT_DAYS} days before the data",
            "R",
            f"{DRIFT_DAYS} days ago",
            least=1,
        ),
        Option(
            "to_revision",
            "To revision",
            "the last revision; by default the newest one",
            "R",
            "Newest",
            least=1,
        ),
        Option(
            "share",
            "Largest share",
            "the largest share of the active members of a group who hold it, above 0 and up to 1; by default "
            f"{DEFAULT_SHARE}",
            "SHARE",
            str(DEFAULT_SHARE),
        ),
        Option(
            "prefer",
            "Prefer",
            "fewest: the fewest roles, which give exactly the direct grants; teams: roles that people would define; by default "
            "fewest",
            "PREFERENCE",
            choices=(
                ("", "The fewest roles"),
                (ROLES_OF_TEAMS, "Roles that people would define"),
            ),
        ),
        Option(
            "stable_days",
            "Held for at least (days)",
            "with teams, only what users held already so many days ago; by default all",
            "DAYS",
            "0",
            least=1,
            extra_tables=HISTORY_TABLES,
        ),
        Option(
            "surplus",
            "Largest surplus",
            f"with teams, the largest share of a role's users who may lack a permission of it, up to {MAX_SURPLUS}; by default 0",
            "SHARE",
            "0",
        ),
    )
}


@frozen
class Output:
    """One table that an analysis writes.

    build: `module:function` in analytics.spark, called with an `AnalysisInput`; its `earlier` contains the
    preceding tables.
    question: the heading of the table on its page.
    first_sort: the column that sorts the table when its page opens, after a minus if the largest value comes first;
    empty for the key. Files are always sorted by the key.
    needs_administrator: each row names an entity that needs another administrator, so the page offers to
    grant ADMIN on it.
    has_areas: each row is about a user in a namespace, and depends on what INVARIANT of `analytics.spark.area_input` says, so
    that the table can be advanced. A table without the column `user` has a row for each namespace, which depends on the
    entities of this namespace and on its rows in the preceding tables.
    """

    table: Table
    build: str
    question: str
    first_sort: str = ""
    needs_administrator: bool = False
    has_areas: bool = False


@frozen
class Analysis:
    """One analysis.

    words: further words by which the search finds its page.
    options: the names of the OPTIONS that it takes.
    outputs: written in this order. `--output` writes the table `rows`; the last one is the overview.
    detail: the pairs behind the counts of the first output; it may have as many rows as users times entities.
        None if the rows of the first output are the pairs.
    detail_rows: an SQL expression over the first output; its sum is the number of rows of the detail.
    has_sets: whether a job can write the detail as sets of entities too.
    extra_tables: of the snapshot, which only some analyses read.
    figures: the figures at the head of the report: by name, the output table and an SQL aggregate over it.
    figures_by_namespace: the same, with one value for each namespace in the column `namespace` of the table.
    """

    name: AnalysisName | str
    title: str
    question: str
    words: str
    options: tuple[str, ...]
    outputs: tuple[Output, ...]
    figures: Mapping[str, tuple[str, str]]
    detail: Output | None = None
    detail_rows: str = "0"
    extra_tables: tuple[Table, ...] = ()
    has_sets: bool = False
    figures_by_namespace: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def tables_read(self, options: Mapping[str, str]) -> tuple[Table, ...]:
        """Return the EXTRA_TABLES that a run with these options reads."""
        of_options = (OPTIONS[name].extra_tables for name in self.options if options.get(name))
        return (*self.extra_tables, *chain.from_iterable(of_options))

    @property
    def rows(self) -> Table:
        return next(output.table for output in self.outputs if output.table.name == "rows")

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
            words="deletable remove namespace blocked who can delete",
            options=("generation", "namespace"),
            outputs=(
                Output(
                    READINESS,
                    "analytics.spark.analyses.readiness:rows",
                    "How far is each user from deleting a namespace?",
                    has_areas=True,
                ),
                Output(
                    READINESS_NAMESPACES,
                    "analytics.spark.analyses.readiness:namespaces",
                    "Who can delete which namespace?",
                    has_areas=True,
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
            words="see sees visible exposure who",
            options=("generation",),
            outputs=(
                Output(
                    VISIBILITY,
                    "analytics.spark.analyses.visibility:rows",
                    "How many entities of each kind does each user see?",
                    has_areas=True,
                ),
                Output(
                    VISIBILITY_NAMESPACES,
                    "analytics.spark.analyses.visibility:namespaces",
                    "How many entities of each namespace does each user see?",
                    has_areas=True,
                ),
            ),
            detail=Output(
                VISIBILITY_DETAIL,
                "analytics.spark.analyses.visibility:detail",
                "Which entities does each user see?",
            ),
            detail_rows="visible",
            has_sets=True,
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
            words="generation activate compare who gained gains lost loses",
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
            words="leftover orphaned deleted planned addresses clean up",
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
            words="no admin holder owner administrator orphaned",
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
        Analysis(
            name=AnalysisName.BLAST_RADIUS,
            title="Blast radius",
            question="What could one account damage?",
            words="broadest widest access risk damage reach powerful most privileged users who",
            # the result is the same in every generation
            options=("generation",),
            outputs=(
                Output(
                    BLAST_RADIUS,
                    "analytics.spark.analyses.blast_radius:rows",
                    "On how many entities of each kind does each user hold which privilege?",
                ),
                Output(
                    BLAST_RADIUS_NAMESPACES,
                    "analytics.spark.analyses.blast_radius:namespaces",
                    "How much of each namespace does each user reach?",
                ),
                Output(
                    BLAST_RADIUS_PEOPLE,
                    "analytics.spark.analyses.blast_radius:people",
                    "Who reaches the most entities?",
                    first_sort="-changeable",
                ),
            ),
            detail=Output(
                BLAST_RADIUS_DETAIL,
                "analytics.spark.analyses.blast_radius:detail",
                "Which privilege does each user hold on which entity?",
            ),
            detail_rows="entities",
            figures={
                "users_with_privileges": ("people", "count(*)"),
                "widest_reach": ("people", "coalesce(max(entities), 0)::BIGINT"),
                "most_changeable": ("people", "coalesce(max(changeable), 0)::BIGINT"),
                "users_with_admin": ("people", "count(*) filter (admin > 0)"),
            },
            figures_by_namespace={
                "users_who_can_change_something": ("namespaces", "count(*) filter (changeable > 0)")
            },
        ),
        Analysis(
            name=AnalysisName.REDUNDANT,
            title="Redundant access",
            question="Which grants and memberships change no answer?",
            words="duplicate double grants memberships without effect inactive clean up",
            # the result is the same in every generation
            options=("generation",),
            extra_tables=(ROLE_GROUPS,),
            outputs=(
                Output(
                    REDUNDANT,
                    "analytics.spark.analyses.redundant:rows",
                    "Which direct grants does a group give too?",
                ),
                Output(
                    REDUNDANT_MEMBERSHIPS,
                    "analytics.spark.analyses.redundant:memberships",
                    "Which memberships have no effect?",
                ),
                Output(
                    REDUNDANT_INACTIVE,
                    "analytics.spark.analyses.redundant:inactive",
                    "Which grants do inactive users have?",
                ),
                Output(
                    REDUNDANT_GROUPS,
                    "analytics.spark.analyses.redundant:groups",
                    "Which groups make direct grants redundant?",
                    first_sort="-grants",
                ),
            ),
            figures={
                "redundant_grants": ("rows", "count(*)"),
                "users_with_redundant_grants": ("rows", "count(DISTINCT principal)"),
                "memberships_without_effect": ("memberships", "count(*)"),
                "grants_of_inactive_users": ("inactive", "count(*)"),
            },
        ),
        Analysis(
            name=AnalysisName.UNUSED,
            title="Unused access",
            question="Which effective grants have no recorded use in the window?",
            words="not used use usage grants stale dormant least privilege revoke",
            # the result is the same in every generation
            options=("generation", "since"),
            outputs=(
                Output(
                    UNUSED,
                    "analytics.spark.analyses.unused:rows",
                    "Which privileges does each user not use?",
                ),
                Output(
                    UNUSED_GRANTS,
                    "analytics.spark.analyses.unused:grants",
                    "Which grants did none of their users use?",
                    first_sort="last_use",
                ),
                Output(
                    UNUSED_COVERAGE,
                    "analytics.spark.analyses.unused:coverage",
                    "How much history do the records of use cover?",
                ),
                Output(
                    UNUSED_PEOPLE,
                    "analytics.spark.analyses.unused:people",
                    "Who has the most privileges without use?",
                    first_sort="-privileges",
                ),
            ),
            figures={
                "days_with_records_of_use": ("coverage", "coalesce(max(days), 0)::BIGINT"),
                "days_of_the_window": ("coverage", 'coalesce(max("window"), 0)::BIGINT'),
                "unused_privileges": ("people", "coalesce(sum(privileges), 0)::BIGINT"),
                "users_with_unused_privileges": ("people", "count(*)"),
                "grants_that_nobody_used": ("grants", "count(*)"),
            },
            extra_tables=(USES,),
        ),
        Analysis(
            name=AnalysisName.PATTERNS,
            title="Patterns",
            question="Which grants on patterns give more than is used?",
            words="wildcard surplus narrower broad star",
            # the result is the same in every generation
            options=("generation",),
            outputs=(
                Output(
                    SURPLUS,
                    "analytics.spark.analyses.patterns:rows",
                    "What does each grant on a pattern give?",
                    first_sort="-unused",
                ),
                Output(
                    SURPLUS_NARROWER,
                    "analytics.spark.analyses.patterns:narrower",
                    "Which narrower patterns keep what is used?",
                ),
                Output(
                    SURPLUS_KINDS,
                    "analytics.spark.analyses.patterns:kinds",
                    "What do patterns give by kind?",
                    first_sort="-given",
                ),
            ),
            figures={
                "grants_on_patterns": ("rows", "count(*)"),
                "grants_on_patterns_that_match_nothing": ("rows", "count(*) filter (matches = 0)"),
                "grants_on_patterns_with_unused_entities": ("rows", "count(*) filter (unused > 0)"),
                "grants_inside_other_patterns": ("rows", "count(*) filter (inside <> '')"),
                "grants_that_reveal_every_namespace": ("rows", "count(*) filter (reveals_all)"),
            },
            extra_tables=(USES, PATTERNS, MATCHES),
        ),
        Analysis(
            name=AnalysisName.OUTLIERS,
            title="Outliers",
            question="What does a member of a group hold that almost no other member does?",
            words="unusual different peers colleagues anomalies risk",
            # the result is the same in every generation
            options=("generation", "namespace", "share"),
            outputs=(
                Output(
                    OUTLIERS,
                    "analytics.spark.analyses.outliers:rows",
                    "Which privileges does almost no other member hold?",
                    first_sort="holders",
                ),
                Output(
                    OUTLIERS_GROUPS,
                    "analytics.spark.analyses.outliers:groups",
                    "In which groups do members hold something unusual?",
                    first_sort="-privileges",
                ),
                Output(
                    OUTLIERS_PEOPLE,
                    "analytics.spark.analyses.outliers:people",
                    "Who holds the most that colleagues do not?",
                    first_sort="-privileges",
                ),
            ),
            figures={
                "users_who_differ": ("people", "count(*)"),
                "unusual_privileges": ("people", "coalesce(sum(privileges), 0)::BIGINT"),
                "groups_with_members_who_differ": ("groups", "count(*)"),
            },
        ),
        Analysis(
            name=AnalysisName.DRIFT,
            title="Drift",
            question="Who gained or lost which privileges between two revisions, and by which journal lines?",
            words="who gained lost changed changes privileges difference",
            # the result is the same in every generation
            options=("generation", "from_revision", "to_revision"),
            outputs=(
                Output(
                    DRIFT,
                    "analytics.spark.analyses.drift:rows",
                    "Which privileges did users gain or lose?",
                ),
                Output(
                    DRIFT_LINES,
                    "analytics.spark.analyses.drift:lines",
                    "Which journal lines changed them?",
                    first_sort="-revision",
                ),
                Output(
                    DRIFT_PEOPLE,
                    "analytics.spark.analyses.drift:people",
                    "Which users gained or lost the most privileges?",
                    first_sort="-gained",
                ),
            ),
            figures={
                "users_with_changes": ("people", "count(*)"),
                "privileges_gained": ("people", "coalesce(sum(gained), 0)::BIGINT"),
                "privileges_lost": ("people", "coalesce(sum(lost), 0)::BIGINT"),
            },
            extra_tables=HISTORY_TABLES,
        ),
        Analysis(
            name=AnalysisName.ROLE_MINING,
            title="Role mining",
            question="Which groups would replace the direct grants?",
            words="roles groups propose direct grants",
            # the result is the same in every generation
            options=("generation", "namespace", "prefer", "stable_days", "surplus"),
            outputs=(
                Output(
                    ROLE_MEMBERS,
                    "analytics.spark.analyses.role_mining:members",
                    "Which users are in each role?",
                ),
                Output(
                    ROLE_PERMISSIONS,
                    "analytics.spark.analyses.role_mining:permissions",
                    "Which privileges does each role give?",
                ),
                Output(
                    ROLE_COVERAGE,
                    "analytics.spark.analyses.role_mining:coverage",
                    "How many direct grants do the first roles replace?",
                ),
                Output(
                    ROLES,
                    "analytics.spark.analyses.role_mining:rows",
                    "Which roles cover the most direct grants?",
                ),
            ),
            detail=Output(
                ROLE_DETAIL,
                "analytics.spark.analyses.role_mining:detail",
                "Which direct grants does each role cover?",
            ),
            detail_rows="assignments",
            figures={
                "roles": ("rows", "count(*)"),
                "roles_of_several_users": ("rows", "count(*) filter (users > 1)"),
                "roles_that_are_groups": ("rows", "count(*) filter (\"group\" <> '')"),
                "memberships_needed": ("rows", "coalesce(sum(users), 0)::BIGINT"),
                "grants_needed": ("rows", "coalesce(sum(permissions), 0)::BIGINT"),
                "grants_that_roles_cover": ("coverage", "coalesce(max(covered), 0)::BIGINT"),
            },
        ),
        Analysis(
            name=AnalysisName.GUARDRAILS,
            title="Guardrail violations",
            question="Which guardrails do the grants violate?",
            words="rules forbidden separation of duties sod risk",
            # expected decisions are those of the active generation
            options=("generation",),
            outputs=(
                Output(
                    VIOLATIONS,
                    "analytics.spark.analyses.guardrails:rows",
                    "What violates each guardrail?",
                ),
                Output(
                    VIOLATION_TOTALS,
                    "analytics.spark.analyses.guardrails:totals",
                    "Which guardrails are violated the most?",
                    first_sort="-violations",
                ),
            ),
            figures={
                "guardrails": ("guardrails", "count(*)"),
                "guardrails_violated": ("guardrails", "count(*) filter (violations > 0)"),
                "guardrail_violations": ("guardrails", "coalesce(sum(violations), 0)::BIGINT"),
            },
            extra_tables=GUARDRAIL_TABLES,
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
