"""What one row of a report lacks, and the whole report as a file."""

import csv
from collections.abc import Iterator

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe

from analytics.analyses import AnalysisError, analysis_named
from analytics.models import AnalysisRun, RunState
from analytics.results import ResultFilter, ResultPage, result_batches, result_page
from analytics.storage import StorageError
from authzconsole.web.answers import shown_gap
from authzconsole.web.guard import overseers_only
from authzconsole.web.paging import numbered_page, page_number
from authzconsole.web.parameters import name_of
from authzconsole.web.rendering import render_page, see_other
from authzconsole.web.reports import ROWS_A_PAGE, namespace_url, numbered_rows, unreadable
from authzconsole.web.runs import run_or_404
from entities.address import parse_address
from entities.vocabulary import Privilege

FORMULA_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r")


class Echo:
    """A file for csv.writer that hands each line back."""

    def write(self, line: str) -> str:
        return line


@require_safe
@overseers_only
def missing(request: HttpRequest, pk: int) -> HttpResponse:
    """The entities that one person lacks in one namespace."""
    run = run_or_404(pk)
    namespace, user = name_of(request, "namespace"), name_of(request, "user")
    if run.state != RunState.DONE:
        return see_other(reverse("analysis", args=[run.pk]))
    context = {"run": run, "namespace": namespace, "user": user, "namespace_url": namespace_url(namespace)}
    try:
        found, number = _lacking(run, namespace, user, page_number(request, "page"))
    except (AnalysisError, StorageError) as error:
        return render_page(request, "analyses/missing.html", context | {"fault": unreadable(run, error)})
    gaps = [shown_gap((parse_address(row["entity"]), Privilege.ADMIN), f"user:{user}", request.user) for row in found.rows]
    page = numbered_page(request, gaps, number=number, total=found.total_rows, most_rows=ROWS_A_PAGE, name="page")
    return render_page(request, "analyses/missing.html", context | {
        "page": page, "gaps": gaps, "total": found.total_rows,
        "is_left_out": not run.summary.get("detail_is_written", True),
    })


def _lacking(run: AnalysisRun, namespace: str, user: str, number: int) -> tuple[ResultPage, int]:
    if not run.summary.get("detail_is_written", True):
        return ResultPage([], 0), 1
    return numbered_rows(run, "detail", where=ResultFilter(equal={"namespace": namespace, "user": user}), number=number,
                         most_rows=ROWS_A_PAGE)


@require_safe
@overseers_only
def rows_csv(request: HttpRequest, pk: int) -> HttpResponse:
    """Every row of the report, streamed."""
    run = run_or_404(pk)
    if not _has_rows(run):
        # its page says why
        return see_other(reverse("analysis", args=[run.pk]))
    response = StreamingHttpResponse(_csv_lines(run), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{run.analysis}-{run.pk}.csv"'
    patch_cache_control(response, private=True, no_store=True)
    return response


def _has_rows(run: AnalysisRun) -> bool:
    try:
        result_page(run, most_rows=1)
    except (AnalysisError, StorageError):
        return False
    return True


def _csv_lines(run: AnalysisRun) -> Iterator[str]:
    table = analysis_named(run.analysis).rows
    writer = csv.writer(Echo())
    yield writer.writerow(table.column_names)
    for batch in result_batches(table, run.result_folder):
        for row in batch.to_pylist():
            yield writer.writerow([_csv_value(value) for value in row.values()])


def _csv_value(value):
    if isinstance(value, bool):
        return str(value).lower()
    # a spreadsheet, in which such files are opened, would compute it
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_BEGINNINGS) else value
