"""Find what needs attention now. Each source knows its kinds of findings; `refresh` stores what they find."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from datetime import timedelta
from functools import partial

from django.db.models import Count, F, Max, Q
from django.utils import timezone

from analytics.analyses import ANALYSES, AnalysisError, AnalysisName
from analytics.models import AnalysisRun
from analytics.results.query import EVERYTHING, ResultFilter
from analytics.results.read import first_rows, namespace_counts, result_page
from analytics.results.recheck import current_administrators, fixed_rows
from analytics.runs.selectors import latest_run, latest_runs
from analytics.storage import StorageError
from authzconsole.common.limited_access import counted_rows
from authzconsole.common.monitoring.maintenance import maintenance_records
from authzconsole.common.row_estimates import estimated_rows
from authzconsole.connections.jobs import TEST_JOB, drifting_connections
from authzconsole.findings.kinds import JOB_WORDS, PLANNED_TOO_LONG_DAYS
from authzconsole.models import MaintenanceTask
from entities.address import address_or_none
from entities.frozen import frozen
from entities.models import Entity, State
from entities.vocabulary import quantity
from grants.active_generation import active_generation
from grants.evaluation.count_cache import cached_count
from grants.guardrails.evaluation import violations
from grants.guardrails.exceptions import Exceptions
from grants.jobs import REFUSED
from grants.journal import read_only_reason
from grants.models import (
    EFFECT_JOBS,
    UNFINISHED_STATES,
    Enforcement,
    GrantQuerySet,
    GroupGrant,
    Guardrail,
    GuardrailException,
    Job,
    JobState,
    Plan,
    PlanState,
    UserGrant,
)
from grants.plans.staleness import invalidating_line
from grants.policies.policy import Generation
from grants.validity import question_time

# findings of one kind about single namespaces; further ones are one finding
MAX_NAMESPACES = 100
# rows of a report that are checked again after a change
MAX_ROWS_CHECKED = 500
MAX_PLANS_CHECKED = 10
FAILED_JOBS_SINCE = timedelta(days=7)
GUARDRAIL_KINDS = ("guardrail-violations", "guardrail-warnings")


@frozen
class Found:
    """What a source found; see `Finding`."""

    kind: str
    subject: str = ""
    figure: int = 1
    note: str = ""
    run: AnalysisRun | None = None


@frozen
class Situation:
    """What the sources know about the tenant.

    is_large: whether counts that scan all grants are left out. reports: the newest run of each analysis; of delete readiness,
    that over all namespaces in the active generation. reads_reports: whether new reports are read. stored: by kind, the run of the
    stored findings, so that its report is not read again. changes: by primary key of a report, the number of changes since.
    """

    generation: Generation
    is_large: bool
    reports: Mapping[str, AnalysisRun]
    reads_reports: bool = True
    stored: Mapping[str, int | None] = field(default_factory=dict)
    changes: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def now(cls, *, generation: Generation | None = None, is_large: bool | None = None) -> "Situation":
        """Return the situation. generation, is_large: if they are known already. Runs up to four queries."""
        generation = generation or active_generation()
        is_large = is_large_tenant() if is_large is None else is_large
        return cls(generation, is_large, newest_reports(generation))


def newest_reports(generation: Generation | None = None) -> dict[str, AnalysisRun]:
    """Return the newest run of each analysis, as `Situation.reports`. Runs up to three queries."""
    generation = generation or active_generation()
    reports, wanted = latest_runs(*REPORTING), {"namespace": "", "generation": generation.name}
    newest = reports.pop(AnalysisName.DELETE_READINESS, None)
    if newest and {name: newest.options.get(name) for name in wanted} != wanted:
        newest = latest_run(AnalysisName.DELETE_READINESS, **wanted)
    if newest:
        reports[AnalysisName.DELETE_READINESS] = newest
    return reports


def is_large_tenant() -> bool:
    """Return whether counts that scan all grants take too long for a page. Runs at most two queries."""
    return estimated_rows(Entity.objects.all()).is_large


# The findings of a source; None if they are those that are stored.
Finder = Callable[[Situation], Iterable[Found] | None]


@frozen
class ReportFigure:
    """A kind of finding that the newest report of an analysis has, for each namespace.

    figure: the total, in the summary of the run. table: its rows, or `where` of them, are counted by namespace; empty if the
    report has no such table. still: whether each of these rows has the problem now, with a fixed number of queries for all rows;
    None if this takes an analysis. checked: the figures of all rows of the table, if all are checked instead of `where`.

    After a change, at most MAX_ROWS_CHECKED rows are checked again, so that a solved problem is not found any more. A new problem
    is found by the next analysis.
    """

    kind: str
    analysis: AnalysisName
    figure: str
    table: str = "rows"
    where: ResultFilter = EVERYTHING
    still: Callable[[AnalysisRun, list[dict]], list[bool]] | None = None
    checked: tuple[str, ...] = ()

    def find(self, situation: Situation) -> Iterable[Found] | None:
        run = situation.reports.get(self.analysis)
        if not situation.reads_reports:
            return None
        # without a report about the active generation, an earlier one says nothing
        total = run.summary.get(self.figure, 0) if run else 0
        if run and total and situation.changes.get(run.pk) and self._can_check(run):
            name = f"findings:{self.kind}:{run.pk}"
            # if the report cannot be read, the stored findings remain
            with suppress(AnalysisError, StorageError):
                counts = cached_count(name, partial(self._counts_now, run), at=question_time())
                return _of_namespaces(self.kind, counts, counts.total(), run=run)
        if run and situation.stored.get(self.kind) == run.pk:
            return None
        return self._by_namespace(run, total) if run and total else ()

    def rows_in(self, run: AnalysisRun, namespace: str, max_rows: int) -> list[dict]:
        """Return the first rows of a namespace that have the problem now, of at most MAX_ROWS_CHECKED. Raise the errors of
        `result_page`.

        namespace: its name; empty for the rows outside of all namespaces.
        """
        where = replace(EVERYTHING if self.checked else self.where, namespace=namespace)
        rows = first_rows(run, self.table, where, MAX_ROWS_CHECKED)
        found: list[dict] = []
        # most rows have the problem still, so the first ones are checked before all others
        for part in (rows[: 2 * max_rows], rows[2 * max_rows :]):
            if part and len(found) < max_rows:
                has_problem = self.still(run, part) if self.still else [True] * len(part)
                found += [row for row, still in zip(part, has_problem, strict=True) if still]
        return found[:max_rows]

    def _can_check(self, run: AnalysisRun) -> bool:
        rows = sum(run.summary.get(figure, 0) for figure in self.checked or (self.figure,))
        return self.still is not None and rows <= MAX_ROWS_CHECKED

    def _counts_now(self, run: AnalysisRun) -> Counter[str]:
        """Return how many of the rows have the problem now, by namespace, the largest first."""
        where = EVERYTHING if self.checked else self.where
        rows = result_page(run, self.table, where=where, max_rows=MAX_ROWS_CHECKED).rows
        has_problem = self.still(run, rows) if self.still else []
        counts = Counter(_namespace_of(row) for row, still in zip(rows, has_problem, strict=True) if still)
        return Counter(dict(counts.most_common()))

    def _by_namespace(self, run: AnalysisRun, total: int) -> Iterator[Found]:
        counts: dict[str, int] = {}
        if self.table:
            # without the table, the run still has the total
            with suppress(AnalysisError, StorageError):
                counts = namespace_counts(run, self.table, where=self.where, max_rows=MAX_NAMESPACES)
        yield from _of_namespaces(self.kind, counts, total, run=run)


def _namespace_of(row: dict) -> str:
    """Return the name of the namespace of a row; empty outside of all namespaces."""
    if "namespace" in row:
        return row["namespace"]
    address = address_or_none(row["entity"])
    return address.namespace.key if address and address.namespace else ""


def _problem_check(table: str) -> Callable[[AnalysisRun, list[dict]], list[bool]]:
    def still(run: AnalysisRun, rows: list[dict]) -> list[bool]:
        solved = fixed_rows(run, table, rows)
        return [number not in solved for number in range(len(rows))]

    return still


def _administrator_check(number: int) -> Callable[[AnalysisRun, list[dict]], list[bool]]:
    return lambda run, rows: [admins == number for admins in current_administrators(rows)]


def _of_namespaces(
    kind: str, counts: Mapping[str, int], total: int, *, note: str = "", run: AnalysisRun | None = None
) -> Iterator[Found]:
    """Yield a finding for each namespace, and one for the rest. counts: the figures by name, the largest first."""
    named = {name: figure for name, figure in list(counts.items())[:MAX_NAMESPACES] if name and figure}
    for name, figure in named.items():
        yield Found(kind, f"namespace:{name}", figure, note, run)
    if (rest := total - sum(named.values())) > 0:
        yield Found(kind, "", rest, note, run)


def _console(situation: Situation) -> Iterator[Found]:
    """Yield the problems of the console itself. Runs two queries."""
    records = maintenance_records()
    if reason := read_only_reason():
        yield Found("read-only", note=f"The console is read-only: {reason}"[:500])
    if MaintenanceTask.BACKUP not in records:
        yield Found("no-backup", note="No backup was written")
    for task, record in records.items():
        if not record.is_ok:
            yield Found(
                "failed-task", f"task:{task}", note=f"{record.get_task_display()} failed: {record.text}"[:500]
            )


def _ghost_grants(situation: Situation) -> Iterable[Found] | None:
    """Return the grants of groups and active users on addresses without a live entity: those of the report in a large tenant;
    otherwise the current ones.
    """
    if situation.is_large:
        return _reported_ghosts(situation)
    return _counted_ghosts(situation.generation)


def _note(kind: str, generation: Generation) -> str:
    # If the generation removes grants with their entity, these grants remain from an earlier generation.
    applies_again = kind == "leftover-grants" and not generation.deleting_removes_grants
    return ", which apply again if the entities are recreated" if applies_again else ""


GHOST_FIGURES = tuple(
    ReportFigure(kind, AnalysisName.GHOST_GRANTS, figure, where=ResultFilter(equal={"state": str(state)}))
    for kind, figure, state in (
        ("leftover-grants", "grants_on_deleted_addresses", State.DELETED),
        ("planned-grants", "grants_on_planned_addresses", State.PLANNED),
    )
)


def _reported_ghosts(situation: Situation) -> Iterable[Found] | None:
    parts = [report.find(situation) for report in GHOST_FIGURES]
    # both are of one report
    if any(part is None for part in parts):
        return None
    return (replace(row, note=_note(row.kind, situation.generation)) for part in parts for row in part or ())


def is_planned_too_long() -> Q:
    """Return the condition of grants that are about `old-planned-grants`, if their address is planned."""
    return Q(granted_at__lt=timezone.now() - timedelta(days=PLANNED_TOO_LONG_DAYS))


def counted_grants() -> list[GrantQuerySet]:
    """Return the grants that findings about addresses without a live entity count, as the report and its trend do."""
    return [UserGrant.objects.filter(user__is_active=True), GroupGrant.objects.all()]


def _counted_ghosts(generation: Generation) -> Iterator[Found]:
    """Yield the current numbers by namespace. Runs two queries."""
    is_leftover, is_planned = Q(content_object__state=State.DELETED), Q(content_object__state=State.PLANNED)
    is_old = is_planned_too_long()
    totals: dict[str, Counter[str]] = {
        kind: Counter() for kind in ("leftover-grants", "old-planned-grants", "planned-grants")
    }
    for grants in counted_grants():
        rows = grants.filter(is_leftover | is_planned).order_by().values(name=F("namespace__key"))
        for row in rows.annotate(
            leftover=Count("pk", filter=is_leftover),
            old=Count("pk", filter=is_planned & is_old),
            planned=Count("pk", filter=is_planned & ~is_old),
        ):
            for kind, figure in zip(totals, (row["leftover"], row["old"], row["planned"]), strict=True):
                totals[kind][row["name"] or ""] += figure
    for kind, counts in totals.items():
        yield from _of_namespaces(
            kind, dict(counts.most_common()), counts.total(), note=_note(kind, generation)
        )


def _guardrails(situation: Situation) -> Iterable[Found] | None:
    """Return the violations of small tenants, which are counted again after a change. Those of large tenants are counted by a
    job, once a day.
    """
    return None if situation.is_large else violations_by_guardrail(_cached_violations)


def _cached_violations() -> Counter[str]:
    # the end of an exception changes the count without a change of the data
    exceptions = GuardrailException.objects.filter(valid_until__gt=timezone.now()).count()
    return cached_count(f"guardrails:{exceptions}", count_violations, at=question_time())


def count_violations() -> Counter[str]:
    """Return the number of violations of each guardrail that no exception accepts. Reads all grants."""
    exceptions = Exceptions()
    return Counter(row.guardrail for row in violations() if exceptions.accepting(row) is None)


def violations_by_guardrail(count: Callable[[], Counter[str]] = count_violations) -> Iterator[Found]:
    """Yield the violations of each guardrail. Runs one query without guardrails."""
    levels = dict(Guardrail.objects.values_list("name", "level"))
    for name, figure in count().items() if levels else ():
        kind = "guardrail-violations" if levels.get(name) == Enforcement.BLOCK else "guardrail-warnings"
        yield Found(kind, f"guardrail:{name}", figure)


def _drift(situation: Situation) -> Iterator[Found]:
    """Yield the number of privileges that only one side grants, for each connection. Runs two queries."""
    for name, figure in drifting_connections():
        yield Found("drift", f"connection:{name}", figure)


def _failed_jobs(situation: Situation) -> Iterator[Found]:
    """Yield the analyses if their newest finished run failed, and the types of other jobs that failed lately. Runs one query.

    A refused job and the test of a connection are left out: the account that requested it sees why.
    """
    has_failed = Q(state=JobState.FAILED) & ~Q(summary__has_key=REFUSED)
    finished = Job.objects.exclude(state__in=UNFINISHED_STATES).order_by().values("type")
    for row in finished.annotate(
        newest=Max("pk"),
        newest_failed=Max("pk", filter=has_failed),
        failed=Count("pk", filter=has_failed & Q(finished_at__gt=timezone.now() - FAILED_JOBS_SINCE)),
    ):
        name, figure = row["type"], row["failed"]
        if name in ANALYSES and row["newest"] == row["newest_failed"]:
            note = f"The last run of {ANALYSES[name].title} failed"
            yield Found("failed-run", f"analysis:{name}", note=note, run=AnalysisRun(pk=row["newest"]))
        elif figure and name not in (*ANALYSES, *EFFECT_JOBS, TEST_JOB):
            words = JOB_WORDS.get(name, (f"job of the type {name}", f"jobs of the type {name}"))
            note = f"{quantity(figure, *words)} failed in the last 7 days"
            yield Found("failed-job", f"job:{name}", figure, note)


def _plans(situation: Situation) -> Iterator[Found]:
    """Yield the number of proposed plans, and how many of the newest ones are stale. Runs up to 12 queries."""
    proposed = Plan.objects.filter(state=PlanState.PROPOSED)
    newest = list(proposed.order_by("-pk")[: MAX_PLANS_CHECKED + 1])
    stale = sum(invalidating_line(plan) is not None for plan in newest[:MAX_PLANS_CHECKED])
    total = len(newest) if len(newest) <= MAX_PLANS_CHECKED else proposed.count()
    if stale:
        yield Found("stale-plans", figure=stale)
    if total > stale:
        yield Found("proposed-plans", figure=total - stale)


def _periods(situation: Situation) -> Iterator[Found]:
    """Yield what ends soon, and what has expired. Runs two queries."""
    for kind, show in (("ending-access", "soon"), ("expired-access", "expired")):
        if total := counted_rows(show):
            yield Found(kind, figure=total)


def _impact(situation: Situation) -> Iterator[Found]:
    run = situation.reports.get(AnalysisName.POLICY_IMPACT)
    if run is None or run.options.get("generation") != situation.generation.name:
        return
    if other := run.options.get("to_generation"):
        gained, lost = (run.summary.get(name, 0) for name in ("answers_gained", "answers_lost"))
        note = (
            f"Impact report available, from generation {situation.generation.name} to {other}: "
            f"{quantity(gained, 'permission', 'permissions')} gained, {lost:,} lost"
        )
        yield Found("policy-impact", f"generation:{other}", note=note, run=run)


REPORT_FIGURES = (
    ReportFigure(
        "undeletable",
        AnalysisName.DELETE_READINESS,
        "namespaces_nobody_can_delete",
        "namespaces",
        ResultFilter(equal={"nobody_can_delete": True}),
        _problem_check("namespaces"),
    ),
    ReportFigure(
        "no-admin-holder",
        AnalysisName.STRANDED,
        "entities_nobody_administers",
        where=ResultFilter(equal={"admins": 0}),
        still=_administrator_check(0),
        checked=("entities_nobody_administers", "entities_one_user_administers"),
    ),
    ReportFigure(
        "one-admin-holder",
        AnalysisName.STRANDED,
        "entities_one_user_administers",
        where=ResultFilter(equal={"admins": 1}),
        still=_administrator_check(1),
        checked=("entities_nobody_administers", "entities_one_user_administers"),
    ),
    ReportFigure(
        "unused-grants",
        AnalysisName.UNUSED,
        "grants_that_nobody_used",
        "grants",
        still=_problem_check("grants"),
    ),
    ReportFigure(
        "redundant-grants", AnalysisName.REDUNDANT, "redundant_grants", still=_problem_check("rows")
    ),
    ReportFigure("unusual-privileges", AnalysisName.OUTLIERS, "unusual_privileges", ""),
)
# the analyses behind the inbox, the overview, and the trends
REPORTING = (
    *dict.fromkeys(report.analysis for report in (*REPORT_FIGURES, *GHOST_FIGURES)),
    AnalysisName.POLICY_IMPACT,
    AnalysisName.BLAST_RADIUS,
    AnalysisName.GUARDRAILS,
)
# by the kinds of findings of a source
SOURCES: dict[tuple[str, ...], Finder] = {
    ("read-only", "failed-task", "no-backup"): _console,
    **{(report.kind,): report.find for report in REPORT_FIGURES},
    ("leftover-grants", "old-planned-grants", "planned-grants"): _ghost_grants,
    GUARDRAIL_KINDS: _guardrails,
    ("drift",): _drift,
    ("failed-run", "failed-job"): _failed_jobs,
    ("stale-plans", "proposed-plans"): _plans,
    ("ending-access", "expired-access"): _periods,
    ("policy-impact",): _impact,
}
