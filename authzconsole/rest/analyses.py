"""The REST resources `analyses` and `runs`: list analyses, start and cancel runs, read reports."""

from pathlib import Path

from django.conf import settings
from django.http import FileResponse, Http404
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from analytics.analyses import ANALYSES, Analysis, AnalysisError, AnalysisName, analysis_by_name
from analytics.folders import scratch_folder
from analytics.models import AnalysisRun, RunStage
from analytics.results.compare import CHANGES
from analytics.results.export import DOWNLOAD_FORMATS, export_table
from analytics.results.query import ResultFilter
from analytics.results.read import readable_table, report_manifest, result_page
from analytics.runs.selectors import SILENT_AFTER_SECONDS, run_silent_seconds, run_waiting_reason
from analytics.runs.services import cancel_run, request_run
from analytics.tables import Column, ColumnType, Table
from authzconsole.common.fields import MAX_INTEGER, Choice, NameText, StrictSerializer, Text
from authzconsole.rest.entities import as_json_time
from authzconsole.rest.framework.callers import any_account, author_of, changeable_with, check_report_reader
from authzconsole.rest.framework.cursors import (
    ListPart,
    PageQuery,
    cursor_for,
    list_identity,
    page_of,
    page_serializer,
    position_in_list,
)
from authzconsole.rest.framework.endpoint import Endpoint, created_response
from authzconsole.rest.framework.locations import run_location
from authzconsole.rest.framework.operations import FILE, LOCATION, api_operation, path_parameter
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.framework.renderers import CsvRenderer, JsonLinesRenderer, ParquetRenderer
from grants.models import JobState
from grants.policies.catalogue import GENERATIONS
from grants.roles.capabilities import Capability

TAG = "Analyses"
RUN_PATH = path_parameter("number", "The number of the run.", int)
TABLE_PATH = path_parameter("table", "A table of the analysis, such as `rows`; see the list of analyses.")


class ColumnSerializer(serializers.Serializer):
    name = serializers.CharField()
    type = serializers.ChoiceField([str(type_) for type_ in ColumnType])


class TableSerializer(serializers.Serializer):
    name = serializers.CharField()
    key = serializers.ListField(
        child=serializers.CharField(),
        help_text="The columns that identify a row. The rows are sorted by them.",
    )
    columns = ColumnSerializer(many=True)


class AnalysisSerializer(serializers.Serializer):
    name = serializers.CharField()
    title = serializers.CharField()
    question = serializers.CharField()
    options = serializers.ListField(child=serializers.CharField(), help_text="The options of a run.")
    tables = TableSerializer(many=True)


class AnalysesSerializer(serializers.Serializer):
    items = AnalysisSerializer(many=True)


class RunSerializer(serializers.Serializer):
    number = serializers.IntegerField()
    analysis = serializers.CharField()
    options = serializers.DictField(child=serializers.CharField(allow_blank=True))
    state = serializers.ChoiceField(JobState.values)
    stage = serializers.CharField(
        help_text=f"The stage of a running run: {', '.join(RunStage.values)}; otherwise empty."
    )
    cancel_requested = serializers.BooleanField(
        help_text="Whether the cancellation of the run was requested. A running run stops within seconds."
    )
    tasks_done = serializers.IntegerField()
    tasks_total = serializers.IntegerField()
    requested_by = serializers.CharField(allow_null=True)
    scheduled = serializers.BooleanField(help_text="Whether the schedule of the analysis started the run.")
    requested_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    revision = serializers.IntegerField(allow_null=True, help_text="The revision of the snapshot.")
    waiting_reason = serializers.CharField(help_text="Why a waiting run has not started; empty in lists.")
    silent_seconds = serializers.IntegerField(
        allow_null=True,
        help_text=f"Seconds since the last heartbeat of a running run. A healthy worker sends one every "
        f"second. After {SILENT_AFTER_SECONDS} s without one, the worker probably has a problem.",
    )
    results_removed_at = serializers.DateTimeField(
        allow_null=True, help_text="When the report of the run was removed."
    )
    signed = serializers.BooleanField(
        help_text="Whether the report is signed, so that changes to its files are noticed. False until the run is done."
    )
    error = serializers.CharField()
    summary = serializers.DictField(
        help_text="The figures of the report. `changes` has the number of the previous run of the same analysis with the same "
        "options, and how many rows were added, removed and changed since then; see the table `changes`. "
        "`comparison_fault` says why that comparison failed, and `snapshot_fault` why an earlier snapshot of the "
        "revision was damaged and replaced."
    )


class ResultsSerializer(serializers.Serializer):
    items = serializers.ListField(
        child=serializers.DictField(), help_text="Rows as objects with one member per column."
    )
    next = serializers.CharField(allow_null=True)
    total = serializers.IntegerField(help_text="The number of rows that match the filter.")


class RunsQuery(PageQuery):
    analysis = Choice(choices=list(ANALYSES), required=False)
    state = Choice(choices=JobState.values, required=False)


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


RUN_EXAMPLE = {
    "number": 7,
    "analysis": AnalysisName.DELETE_READINESS.value,
    "options": {"generation": "final", "namespace": ""},
    "state": "waiting",
    "stage": "",
    "cancel_requested": False,
    "tasks_done": 0,
    "tasks_total": 0,
    "requested_by": "admin",
    "scheduled": False,
    "requested_at": "2026-02-01T08:00:00Z",
    "started_at": None,
    "finished_at": None,
    "revision": None,
    "waiting_reason": "It starts within seconds.",
    "silent_seconds": None,
    "results_removed_at": None,
    "signed": False,
    "error": "",
    "summary": {},
}
ANALYSIS_EXAMPLE = {
    "name": AnalysisName.DELETE_READINESS.value,
    "title": "Delete readiness",
    "options": ["generation", "namespace"],
    "question": "Who can delete which namespace, and which grants are missing?",
    "tables": [
        {"name": "rows", "key": ["namespace", "user"], "columns": [{"name": "namespace", "type": "string"}]}
    ],
}
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
        response_example={"items": [ANALYSIS_EXAMPLE]},
    )
    def get(self, request: Request) -> Response:
        return Response({"items": [_analysis_as_json(analysis) for analysis in ANALYSES.values()]})


class Runs(Endpoint):
    rules = {"GET": check_report_reader, "POST": changeable_with(Capability.RUN_ANALYSES)}
    queries = {"GET": RunsQuery}

    @api_operation(
        "runs_list",
        TAG,
        "List runs",
        "Sorted by number, newest first. For administrators and auditors.",
        query=RunsQuery,
        responses={200: page_serializer(RunSerializer)},
        response_example={"items": [RUN_EXAMPLE | {"waiting_reason": ""}], "next": None},
    )
    def get(self, request: Request) -> Response:
        query = self.query
        rows = AnalysisRun.objects.select_related("requested_by")
        columns = {"analysis": "type", "state": "state"}
        rows = rows.filter(**{column: query[name] for name, column in columns.items() if name in query})
        return Response(
            page_of(
                [ListPart(rows, ("-pk",))], _run_as_json, query=query, identity=list_identity("runs", query)
            )
        )

    @api_operation(
        "runs_start",
        TAG,
        "Start an analysis",
        "The run waits for a worker. Location is the URL of the run.",
        request=StartSerializer,
        request_example={"analysis": AnalysisName.DELETE_READINESS.value, "generation": "final"},
        responses={202: RunSerializer},
        response_example=RUN_EXAMPLE,
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        data = self.body(StartSerializer)
        run = request_run(
            analysis=data.pop("analysis"), options=data, requested_by=request.user, author=author_of(request)
        )
        response = created_response(_run_details_as_json(run), run_location(run.pk))
        response.status_code = 202
        return response


class RunDetail(Endpoint):
    rules = {"GET": check_report_reader}

    @api_operation(
        "runs_retrieve",
        TAG,
        "Follow a run",
        "Returns the state of the run and, when it is done, its figures. For administrators and auditors.",
        responses={200: RunSerializer},
        response_example=RUN_EXAMPLE,
        errors=[404],
        parameters=[RUN_PATH],
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(_run_details_as_json(_run_or_404(number)))


class RunCancellation(Endpoint):
    rules = {"POST": changeable_with(Capability.RUN_ANALYSES)}

    @api_operation(
        "runs_cancel",
        TAG,
        "Cancel a run",
        "A waiting run ends at once. A running run ends within seconds and has `cancel_requested` until then. A finished run "
        "is not changed. The request has no body.",
        responses={200: RunSerializer},
        response_example=RUN_EXAMPLE | {"state": "cancelled", "cancel_requested": True},
        errors=[404, 413, 415],
        parameters=[RUN_PATH],
    )
    def post(self, request: Request, number: int) -> Response:
        run = _run_or_404(number)
        self.check_empty_body()
        cancel_run(run=run, author=author_of(request))
        return Response(_run_details_as_json(_run_or_404(number)))


class Results(Endpoint):
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
        errors=[404, 409, 410],
        parameters=[RUN_PATH, TABLE_PATH],
    )
    def get(self, request: Request, number: int, table: str) -> Response:
        run, result_table = _finished_run(request, number, table)
        query, identity = self.query, ["results", number, table, *list_identity("", self.query)]
        first_row = position_in_list(query["cursor"], identity) if query["cursor"] else 0
        where = ResultFilter(equal=_column_filter(result_table, query))
        page = result_page(run, result_table.name, where=where, first_row=first_row, max_rows=query["limit"])
        end = first_row + len(page.rows)
        next_cursor = cursor_for(end, identity) if end < page.total_rows else None
        return Response({"items": page.rows, "next": next_cursor, "total": page.total_rows})


class _TableDownload(Endpoint):
    """Send a table as one file.

    The file is complete before the first byte is sent, so that an error has an error status.
    """

    rules = {"GET": check_report_reader}

    def get(self, request: Request, number: int, table: str) -> FileResponse:
        run, result_table = _finished_run(request, number, table)
        readable_table(run, result_table.name)
        renderer = self.renderer_classes[0]
        with scratch_folder(settings.TEMP_DIR) as folder:
            path = Path(folder) / f"{run.type}-{run.pk}-{result_table.name}.{renderer.format}"
            export_table(result_table, run.result_path, path, DOWNLOAD_FORMATS, report_manifest(run))
            # the open file stays readable after its folder is deleted
            return FileResponse(
                path.open("rb"), as_attachment=True, filename=path.name, content_type=renderer.media_type
            )


class ResultsCsv(_TableDownload):
    renderer_classes = [CsvRenderer]

    @api_operation(
        "runs_results_csv",
        TAG,
        "Download a report's table as CSV",
        "All rows, sorted by the key. An apostrophe precedes values that a spreadsheet would treat as a formula; the other "
        "formats have unchanged values.",
        responses={(200, "text/csv"): FILE},
        errors=[404, 409, 410],
        parameters=[RUN_PATH, TABLE_PATH],
    )
    def get(self, request: Request, number: int, table: str) -> FileResponse:
        return super().get(request, number, table)


class ResultsParquet(_TableDownload):
    renderer_classes = [ParquetRenderer]

    @api_operation(
        "runs_results_parquet",
        TAG,
        "Download a report's table as Parquet",
        "All rows, sorted by the key.",
        responses={(200, "application/vnd.apache.parquet"): FILE},
        errors=[404, 409, 410],
        parameters=[RUN_PATH, TABLE_PATH],
    )
    def get(self, request: Request, number: int, table: str) -> FileResponse:
        return super().get(request, number, table)


class ResultsJsonLines(_TableDownload):
    renderer_classes = [JsonLinesRenderer]

    @api_operation(
        "runs_results_jsonl",
        TAG,
        "Download a report's table as JSON Lines",
        "All rows, one object per line, sorted by the key.",
        responses={(200, "application/x-ndjson"): FILE},
        errors=[404, 409, 410],
        parameters=[RUN_PATH, TABLE_PATH],
    )
    def get(self, request: Request, number: int, table: str) -> FileResponse:
        return super().get(request, number, table)


def _run_or_404(number: int) -> AnalysisRun:
    run = (
        AnalysisRun.objects.select_related("requested_by").filter(pk=number).first()
        if number <= MAX_INTEGER
        else None
    )
    if run is None:
        raise Http404
    return run


def _finished_run(request: Request, number: int, table: str) -> tuple[AnalysisRun, Table]:
    """Return the run and the table. Raise Http404 if they do not exist, Problem if the run has no report."""
    check_report_reader(request)
    run = _run_or_404(number)
    try:
        result_table = analysis_by_name(run.type).table(table)
    except AnalysisError as error:
        raise Problem(404, str(error)) from None
    if run.state != JobState.DONE:
        raise Problem(409, f"run {run.pk} is {run.state}, so it has no report")
    return run, result_table


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


def _analysis_as_json(analysis: Analysis) -> dict:
    return {
        "name": analysis.name,
        "title": analysis.title,
        "question": analysis.question,
        "options": list(analysis.options),
        "tables": list(map(_table_as_json, analysis.tables)),
    }


def _table_as_json(table: Table) -> dict:
    return {"name": table.name, "key": list(table.key), "columns": list(map(_column_as_json, table.columns))}


def _column_as_json(column: Column) -> dict:
    return {"name": column.name, "type": str(column.type)}


def _run_as_json(run: AnalysisRun) -> dict:
    return {
        "number": run.pk,
        "analysis": run.type,
        "options": run.options,
        "state": str(run.state),
        "stage": str(run.stage) if run.state == JobState.RUNNING else "",
        "cancel_requested": run.cancel_requested_at is not None,
        "tasks_done": run.steps_done,
        "tasks_total": run.steps_total,
        "requested_by": run.requested_by.username if run.requested_by else None,
        "scheduled": run.is_scheduled,
        "requested_at": as_json_time(run.requested_at),
        "started_at": as_json_time(run.started_at),
        "finished_at": as_json_time(run.finished_at),
        "revision": run.revision,
        "waiting_reason": "",
        "silent_seconds": run_silent_seconds(run),
        "results_removed_at": as_json_time(run.result_removed_at),
        "signed": bool(run.result_hash),
        "error": run.error,
        "summary": run.summary,
    }


def _run_details_as_json(run: AnalysisRun) -> dict:
    return _run_as_json(run) | {"waiting_reason": run_waiting_reason(run)}
