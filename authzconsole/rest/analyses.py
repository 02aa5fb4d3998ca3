"""The REST resources `analyses` and `runs`: list analyses, start and cancel runs, read reports."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import FileResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from analytics.analyses import ANALYSES, AnalysisError, AnalysisName, analysis_by_name
from analytics.folders import scratch_folder
from analytics.models import AnalysisRun
from analytics.results.compare import CHANGES
from analytics.results.export import DOWNLOAD_FORMATS, export_table
from analytics.results.query import ResultFilter
from analytics.results.read import readable_table, report_manifest, result_page
from analytics.runs.services import cancel_run, request_run
from analytics.tables import Table
from authzconsole.common.fields import Choice, NameText, StrictSerializer, Text
from authzconsole.lists.runs import AnalysesSerializer, Runs, RunSerializer, run_data
from authzconsole.rest.framework.callers import any_account, author_of, changeable_with, check_report_reader
from authzconsole.rest.framework.cursors import PageQuery, cursor_for, list_identity, position_in_list
from authzconsole.rest.framework.endpoint import EmptySerializer, Endpoint, Resource, created_response
from authzconsole.rest.framework.lists import RENDERERS, Download, ListEndpoint
from authzconsole.rest.framework.locations import run_location
from authzconsole.rest.framework.operations import LOCATION, api_operation, path_parameter
from authzconsole.rest.framework.problems import Problem
from grants.models import JobState
from grants.policies.catalogue import GENERATIONS
from grants.roles.capabilities import Capability

TAG = "Analyses"
RUN = Resource.numbered(
    "The number of the run.", lambda request: AnalysisRun.objects.select_related("requested_by")
)
TABLE_PATH = path_parameter("table", "A table of the analysis, such as `rows`; see the list of analyses.")


class ResultsSerializer(serializers.Serializer):
    items = serializers.ListField(
        child=serializers.DictField(), help_text="Rows as objects with one member per column."
    )
    next = serializers.CharField(allow_null=True)
    total = serializers.IntegerField(help_text="The number of rows that match the filter.")


class StartSerializer(StrictSerializer):
    """An analysis with its options."""

    analysis = Choice(choices=list(ANALYSES), help_text="The name of an analysis.")
    generation = Choice(
        choices=list(GENERATIONS), required=False, help_text="By default the active generation."
    )
    to_generation = Choice(
        choices=list(GENERATIONS),
        required=False,
        help_text="For `policy-impact`: the generation that is compared with `generation`.",
    )
    namespace = Text(required=False, max_length=200, help_text="Only this live namespace; by default all.")


class ResultsQuery(PageQuery):
    namespace = Text(
        required=False, max_length=200, help_text="Only rows of this namespace, for tables with this column."
    )
    user = NameText(required=False, help_text="Only rows of this user, for tables with this column.")
    change = Choice(
        choices=list(CHANGES),
        required=False,
        help_text="Only rows with this change, for the table `changes`.",
    )


RESULTS_EXAMPLE = {
    "items": [
        {
            "namespace": "sales",
            "user": "sofia.lindqvist",
            "required": 12,
            "held": 11,
            "missing": 1,
            "ready": False,
        }
    ],
    "next": None,
    "total": 1,
}


class Analyses(Endpoint):
    rules = {"GET": any_account}

    @api_operation(
        "analyses_list",
        TAG,
        "List the analyses",
        "Each analysis has its options and the tables of its report.",
        responses={200: AnalysesSerializer},
    )
    def get(self, request: Request) -> Response:
        return Response(AnalysesSerializer.data_of({"items": ANALYSES.values()}))


class RunList(ListEndpoint):
    rows = Runs
    rules = {"POST": changeable_with(Capability.RUN_ANALYSES)}
    operation = (
        "runs_list",
        TAG,
        "List runs",
        "Sorted by number, newest first. For administrators and auditors.",
    )

    @api_operation(
        "runs_start",
        TAG,
        "Start an analysis",
        "The run waits for a worker. Location is the URL of the run.",
        request=StartSerializer,
        request_example={"analysis": AnalysisName.DELETE_READINESS.value, "generation": "final"},
        responses={202: RunSerializer},
        response_example={"waiting_reason": "It starts within seconds."},
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        data = self.body(StartSerializer)
        run = request_run(
            analysis=data.pop("analysis"), options=data, requested_by=request.user, author=author_of(request)
        )
        response = created_response(run_data(run), run_location(run.pk))
        response.status_code = 202
        return response


class RunDetail(Endpoint):
    resource = RUN
    rules = {"GET": check_report_reader}

    @api_operation(
        "runs_retrieve",
        TAG,
        "Follow a run",
        "Returns the state of the run and, when it is done, its figures. For administrators and auditors.",
        responses={200: RunSerializer},
        response_example={"waiting_reason": "It starts within seconds."},
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(run_data(self.object))


class RunCancellation(Endpoint):
    resource = RUN
    rules = {"POST": changeable_with(Capability.RUN_ANALYSES)}

    @api_operation(
        "runs_cancel",
        TAG,
        "Cancel a run",
        "A waiting run ends at once. A running run ends within seconds and has `cancel_requested` until then. A finished run "
        "is not changed. The request has no body.",
        responses={200: RunSerializer},
        response_example={"state": "cancelled", "cancel_requested": True},
        errors=[413, 415],
    )
    def post(self, request: Request, number: int) -> Response:
        self.check_empty_body()
        cancel_run(run=self.object, author=author_of(request))
        return Response(run_data(self.resource.object_or_404(request, number)))


class Results(Endpoint):
    resource = RUN
    rules = {"GET": check_report_reader}
    queries = {"GET": ResultsQuery}

    @api_operation(
        "runs_results",
        TAG,
        "Read a report's table",
        "Sorted by the key. The table `changes` has the old and new values of rows. Returns 409 while the run is not done, "
        "if the report has no such table or was changed, and 410 if it was removed. For administrators and auditors.",
        query=ResultsQuery,
        responses={200: ResultsSerializer},
        response_example=RESULTS_EXAMPLE,
        errors=[409, 410],
        parameters=[TABLE_PATH],
    )
    def get(self, request: Request, number: int, table: str) -> Response:
        run, result_table = self.object, _result_table(self.object, table)
        query, identity = self.query, ["results", number, table, *list_identity("", self.query)]
        first_row = position_in_list(query["cursor"], identity) if query["cursor"] else 0
        where = ResultFilter(equal=_column_filter(result_table, query))
        page = result_page(run, result_table.name, where=where, first_row=first_row, max_rows=query["limit"])
        end = first_row + len(page.rows)
        next_cursor = cursor_for(end, identity) if end < page.total_rows else None
        return Response({"items": page.rows, "next": next_cursor, "total": page.total_rows})


class ResultFiles(Download):
    """A table as one file.

    The file is complete before the first byte is sent, so that an error has an error status.
    """

    rows = Runs
    resource = RUN
    queries = {"GET": EmptySerializer}
    operation = "runs_results", TAG, "a report's table", ""
    lines = {
        "csv": "All rows, sorted by the key. An apostrophe precedes values that a spreadsheet would treat as a formula; the other "
        "formats have unchanged values.",
        "parquet": "All rows, sorted by the key.",
        "jsonl": "All rows, one object per line, sorted by the key.",
    }
    errors = (409, 410)
    parameters = (TABLE_PATH,)

    def file(self, request: Request, extension: str, **path: Any) -> FileResponse:
        run, table = self.object, _result_table(self.object, path["table"])
        readable_table(run, table.name)
        with scratch_folder(settings.TEMP_DIR) as folder:
            file = Path(folder) / f"{run.type}-{run.pk}-{table.name}.{extension}"
            export_table(table, run.result_path, file, DOWNLOAD_FORMATS, report_manifest(run))
            # the open file stays readable after its folder is deleted
            return FileResponse(
                file.open("rb"),
                as_attachment=True,
                filename=file.name,
                content_type=RENDERERS[extension].media_type,
            )


def _result_table(run: AnalysisRun, name: str) -> Table:
    """Return a table of the report. Raise Problem if there is no such table, or no report."""
    try:
        table = analysis_by_name(run.type).table(name)
    except AnalysisError as error:
        raise Problem(404, str(error)) from None
    if run.state != JobState.DONE:
        raise Problem(409, f"run {run.pk} is {run.state}, so it has no report")
    return table


def _column_filter(table: Table, query: dict) -> dict:
    column_filter = {name: query[name] for name in ("namespace", "user", "change") if name in query}
    if unknown := [name for name in column_filter if name not in table.column_names]:
        columns = ", ".join(table.column_names)
        raise Problem(
            400,
            f"the table `{table.name}` has no column `{unknown[0]}`; its columns are {columns}",
            errors=[{"field": name, "message": "no such column"} for name in unknown],
        )
    return column_filter
