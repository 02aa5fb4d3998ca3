"""A table of a report as a file, in pieces as they are read: the rows that its page shows, all of them."""

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe

from analytics.analyses import AnalysisError, AnalysisName, analysis_named
from analytics.models import AnalysisRun
from analytics.results.export import DOWNLOAD_FORMATS, export_chunks
from analytics.results.query import ResultFilter
from analytics.results.read import result_stream
from analytics.storage import StorageError
from analytics.tables import Table
from authzconsole.web.reports.readiness_report import given_of, readiness_where
from authzconsole.web.reports.run_details import run_or_404
from authzconsole.web.reports.table_filters import asked_of, table_where
from authzconsole.web.shared.guard import auditor_required
from authzconsole.web.shared.rendering import see_other


@require_safe
@auditor_required
def download_table(request: HttpRequest, pk: int, table: str, extension: str) -> HttpResponse:
    """Nothing is sent before the first rows are read; what breaks off later ends the connection, and so the download."""
    run, form = run_or_404(pk), DOWNLOAD_FORMATS.get(f".{extension}")
    if form is None:
        raise Http404("there is no such form of a table")
    try:
        found = analysis_named(run.analysis).table(table)
    except AnalysisError:
        raise Http404("there is no such table") from None
    try:
        batches = result_stream(run, table, where=_where(request, run, found))
    except (AnalysisError, StorageError):
        # its page says why
        return see_other(reverse("analysis", args=[run.pk]))
    response = StreamingHttpResponse(export_chunks(found, batches, form), content_type=f"{form.media_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{run.analysis}-{run.pk}-{table}.{extension}"'
    patch_cache_control(response, private=True, no_store=True)
    return response


def _where(request: HttpRequest, run: AnalysisRun, table: Table) -> ResultFilter:
    """As the page of that table reads the same parameters."""
    if (run.analysis, table.name) == (AnalysisName.DELETE_READINESS, "rows"):
        return readiness_where(run, given_of(request))
    return table_where(table, asked_of(request, table))
