"""Download a table of a report as a file, with the filters of its page."""

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe

from analytics.analyses import AnalysisError, AnalysisName, analysis_by_name
from analytics.models import AnalysisRun
from analytics.results.export import DOWNLOAD_FORMATS, export_chunks
from analytics.results.query import ResultFilter
from analytics.results.read import result_stream
from analytics.storage import StorageError
from analytics.tables import Table
from authzconsole.web.reports.readiness_report import readiness_filter, readiness_form
from authzconsole.web.reports.run_details import run_or_404
from authzconsole.web.reports.table_filters import filter_values, table_filter
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.rendering import see_other
from grants.roles.capabilities import Capability


@require_safe
@capability_required(Capability.READ_REPORTS)
def download_table(request: HttpRequest, pk: int, table: str, extension: str) -> HttpResponse:
    """Stream the rows.

    The first rows are read before the response starts; an error after that closes the connection.
    """
    run, form = run_or_404(pk), DOWNLOAD_FORMATS.get(f".{extension}")
    if form is None:
        raise Http404("there is no such file format")
    try:
        definition = analysis_by_name(run.type).table(table)
    except AnalysisError:
        raise Http404("there is no such table") from None
    try:
        batches = result_stream(run, table, where=_filter(request, run, definition))
    except (AnalysisError, StorageError):
        # the page of the run shows the error
        return see_other(reverse("analysis", args=[run.pk]))
    response = StreamingHttpResponse(
        export_chunks(definition, batches, form), content_type=f"{form.media_type}; charset=utf-8"
    )
    response["Content-Disposition"] = f'attachment; filename="{run.type}-{run.pk}-{table}.{extension}"'
    patch_cache_control(response, private=True, no_store=True)
    return response


def _filter(request: HttpRequest, run: AnalysisRun, table: Table) -> ResultFilter:
    """Return the filter that the page of the table uses for the same parameters."""
    if (run.type, table.name) == (AnalysisName.DELETE_READINESS, "rows"):
        return readiness_filter(run, readiness_form(request))
    return table_filter(table, filter_values(request, table))
