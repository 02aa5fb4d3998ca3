"""Read reports for pages: pages of their tables, cached results, and what to say if one cannot be read."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, wraps
from typing import TypeVar

from django.http import Http404
from django.shortcuts import get_object_or_404

from analytics.analyses import ANALYSES, AnalysisError
from analytics.models import AnalysisRun
from analytics.results.compare import CHANGES
from analytics.results.files import ResultsGone
from analytics.results.query import ResultFilter
from analytics.results.read import ResultPage, readable_table, result_page
from analytics.storage import StorageError, storage_path
from authzconsole.common.messages import as_sentence
from grants.models import JobState

R = TypeVar("R")
# errors of a report that cannot be read
REPORT_ERRORS = (AnalysisError, StorageError)


def run_or_404(pk: int) -> AnalysisRun:
    run = get_object_or_404(AnalysisRun.objects.select_related("requested_by"), pk=pk)
    if run.type not in ANALYSES:
        raise Http404("the analysis of this run does not exist in this version")
    return run


def report_fault(run: AnalysisRun | None, error: Exception) -> str:
    """Return the error message for a report that cannot be read."""
    if run is None or isinstance(error, ResultsGone):
        return as_sentence(error)
    return f"The report of run {run.pk} cannot be read: {error}."


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


def cached_by_report(max_results: int) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Cache the results of a function of a run and further values, in each process.

    A stored report never changes. The function raises AnalysisError or StorageError if the report no longer
    exists, even if a result is cached.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        read = lru_cache(max_results)(lambda path, run, *values: function(run, *values))

        @wraps(function)
        def cached_function(run, *values):
            readable_table(run, "rows")
            return read(storage_path(run.result_path), run, *values)

        return cached_function

    return decorate


def read_page(run: AnalysisRun, table: str, *, number: int, max_rows: int, **query) -> tuple[ResultPage, int]:
    """Return the page with that number, or the last page if there are fewer, and its number."""
    result = result_page(run, table, first_row=(number - 1) * max_rows, max_rows=max_rows, **query)
    if result.rows or not result.total_rows:
        return result, number if result.rows else 1
    last = -(-result.total_rows // max_rows)
    return result_page(run, table, first_row=(last - 1) * max_rows, max_rows=max_rows, **query), last


def namespace_summaries(run: AnalysisRun | None, names: Iterable[str]) -> Mapping[str, dict]:
    """Return the rows of these namespaces in a report of delete readiness, by name.

    Namespaces that the report does not contain are left out.
    """
    names = tuple(names)
    return _summaries(run, names) if run and names else {}


@cached_by_report(64)
def _summaries(run: AnalysisRun, names: tuple[str, ...]) -> Mapping[str, dict]:
    page = result_page(run, "namespaces", where=ResultFilter(among={"namespace": names}), max_rows=len(names))
    return {row["namespace"]: row for row in page.rows}


def summaries_or_fault(run: AnalysisRun | None, names: Iterable[str]) -> tuple[Mapping[str, dict], str]:
    """Return `namespace_summaries` and an empty message; an empty mapping and an error message if it cannot
    be read.
    """
    try:
        return namespace_summaries(run, names), ""
    except REPORT_ERRORS as error:
        return {}, report_fault(run, error)
