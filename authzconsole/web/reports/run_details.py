"""Prepare runs for display."""

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone

from analytics.analyses import ANALYSES
from analytics.models import AnalysisRun
from analytics.results.compare import CHANGES
from analytics.runs.selectors import changes_since, run_progress
from authzconsole.web.reports.table_headings import detail_name
from grants.models import JobState


def run_or_404(pk: int) -> AnalysisRun:
    run = get_object_or_404(AnalysisRun.objects.select_related("requested_by"), pk=pk)
    if run.type not in ANALYSES:
        raise Http404("the analysis of this run does not exist in this version")
    return run


def run_summary(run: AnalysisRun) -> dict:
    """Return the context of a run in the list of runs."""
    analysis = ANALYSES.get(run.type)
    return {
        "run": run,
        "title": analysis.title if analysis else run.type,
        "question": analysis.question if analysis else "",
        "scope": f"namespace:{run.options['namespace']}"
        if run.options.get("namespace")
        else "every namespace",
        "generation": " to ".join(
            filter(None, (run.options.get(name) for name in ("generation", "to_generation")))
        ),
        "elapsed_seconds": _elapsed_seconds(run),
        "requester": _requester(run),
    }


def run_details(run: AnalysisRun) -> dict:
    """Return the context of the page of a run. Queries Redis while the run waits."""
    return (
        run_summary(run)
        | run_progress(run)
        | {
            "changes_since": changes_since(run),
            "changes_sentence": changes_sentence(run),
            "tables": _further_tables(run),
            "snapshot_note": _snapshot_note(run),
            "comparison_fault": _comparison_fault(run),
            "is_unsigned": _is_unsigned(run),
        }
    )


def changes_sentence(run: AnalysisRun) -> str:
    """Return a sentence about the changes since the previous run; empty if there was no comparison."""
    changes = run.summary.get("changes")
    if run.state != JobState.DONE or not changes:
        return ""
    if any(changes[change] for change in CHANGES):
        counts = ", ".join(f"{changes[change]:,} {change}" for change in CHANGES)
        return f"Rows since run {changes['run']} (revision {changes['revision']:,}): {counts}."
    if changes["revision"] == run.revision:
        return f"Nothing changed since run {changes['run']}, which has the same revision {run.revision:,}."
    return f"Nothing changed since run {changes['run']} (revision {changes['revision']:,}): the rows are the same."


def _comparison_fault(run: AnalysisRun) -> str:
    """Return why the comparison with the previous run failed; empty if it did not."""
    fault = run.summary.get("comparison_fault")
    return f"The comparison with run {fault['run']} failed: {fault['reason']}." if fault else ""


def _is_unsigned(run: AnalysisRun) -> bool:
    """Return whether the run has a report that is not signed, so that changes to its files are not noticed."""
    return run.state == JobState.DONE and run.result_removed_at is None and not run.result_hash


def _snapshot_note(run: AnalysisRun) -> str:
    """Return a sentence about a damaged snapshot that this run replaced; empty if there was none."""
    fault = run.summary.get("snapshot_fault")
    return (
        f"An earlier snapshot of this revision was damaged ({fault}), so this run took a new one."
        if fault
        else ""
    )


def _further_tables(run: AnalysisRun) -> list[tuple[str, str]]:
    """Return (name, link text) of the tables that have their own page."""
    if run.state != JobState.DONE or run.result_removed_at is not None:
        return []
    changes, rows = run.summary.get("changes"), run.summary.get("detail_rows", 0)
    has_detail = ANALYSES[run.type].detail is not None and run.summary.get("detail_is_written")
    tables = [("changes", "Show changes")] if changes and any(changes[change] for change in CHANGES) else []
    return (
        [*tables, ("detail", f"Show all {rows:,} {detail_name(run.type)}")] if has_detail and rows else tables
    )


def _requester(run: AnalysisRun) -> str:
    if run.is_scheduled:
        return "the schedule"
    return run.requested_by.username if run.requested_by else ""


def _elapsed_seconds(run: AnalysisRun) -> float | None:
    if run.started_at is None:
        return None
    return ((run.finished_at or timezone.now()) - run.started_at).total_seconds()
