"""Analyses: which there are, and runs of them from start to report."""

import tempfile
from pathlib import Path

from django.http import FileResponse, Http404
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from analytics.analyses import ANALYSES, Analysis, AnalysisError, AnalysisName, analysis_named
from analytics.models import AnalysisRun, RunStage, RunState
from analytics.results.compare import CHANGES
from analytics.results.export import export_table
from analytics.results.query import ResultFilter
from analytics.results.read import readable_table, result_page
from analytics.runs.selectors import SILENT_AFTER_SECONDS, run_silent_seconds, run_waiting_reason
from analytics.runs.services import cancel_run, request_run
from analytics.tables import Column, ColumnType, Table
from authzconsole.rest.entities import as_json_time
from authzconsole.rest.framework.callers import check_administrator, check_overseer
from authzconsole.rest.framework.cursors import PageQuery, Part, cursor_for, list_identity, page_of, page_shape, position_in_list
from authzconsole.rest.framework.endpoint import Endpoint, created_response
from authzconsole.rest.framework.fields import LARGEST_NUMBER, Choice, NameText, Shape, Text
from authzconsole.rest.framework.locations import run_location
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.openapi.operations import FILE, LOCATION, described, in_path
from grants.policies.catalogue import GENERATIONS

TAG = "Analyses"
RUN_PATH = in_path("number", "The number of the run.", int)
TABLE_PATH = in_path("table", "A table of the analysis, such as `rows`; the list of analyses names them.")


class ColumnSerializer(serializers.Serializer):
    name = serializers.CharField()
    type = serializers.ChoiceField([str(type_) for type_ in ColumnType])


class TableSerializer(serializers.Serializer):
    name = serializers.CharField()
    key = serializers.ListField(child=serializers.CharField(), help_text="The columns that tell rows apart and sort them.")
    columns = ColumnSerializer(many=True)


class AnalysisSerializer(serializers.Serializer):
    name = serializers.CharField()
    title = serializers.CharField()
    question = serializers.CharField()
    options = serializers.ListField(child=serializers.CharField(), help_text="What a run of it may be started with.")
    tables = TableSerializer(many=True)


class AnalysesSerializer(serializers.Serializer):
    items = AnalysisSerializer(many=True)


class RunSerializer(serializers.Serializer):
    number = serializers.IntegerField()
    analysis = serializers.CharField()
    options = serializers.DictField(child=serializers.CharField(allow_blank=True))
    state = serializers.ChoiceField(RunState.values)
    stage = serializers.CharField(help_text=f"Of a running run: {', '.join(RunStage.values)}; empty otherwise.")
    cancel_requested = serializers.BooleanField(
        help_text="Whether somebody asked to cancel it; a running run is cancelled within seconds of that.")
    tasks_done = serializers.IntegerField()
    tasks_total = serializers.IntegerField()
    requested_by = serializers.CharField(allow_null=True)
    scheduled = serializers.BooleanField(help_text="Whether its schedule requested it, and nobody else.")
    requested_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    revision = serializers.IntegerField(allow_null=True, help_text="The revision of the journal that it looked at.")
    waiting_reason = serializers.CharField(help_text="Why a waiting run does not run yet; empty in a list.")
    silent_seconds = serializers.IntegerField(
        allow_null=True, help_text=f"Of a running run: for how long its worker has said nothing. One that works says something "
                                   f"every second; after {SILENT_AFTER_SECONDS} s something is wrong with it.")
    results_removed_at = serializers.DateTimeField(allow_null=True, help_text="Since when its report is not kept any longer.")
    error = serializers.CharField()
    summary = serializers.DictField(
        help_text="The figures at the head of the report. `changes`: with which earlier run of the same analysis with the same "
                  "options it was compared, and how many rows were added, removed and changed; the table `changes` has them.")


class ResultsSerializer(serializers.Serializer):
    items = serializers.ListField(child=serializers.DictField(), help_text="Rows by the names of their columns.")
    next = serializers.CharField(allow_null=True)
    total = serializers.IntegerField(help_text="How many rows the filter lets through.")


class RunsQuery(PageQuery):
    analysis = Choice(choices=list(ANALYSES), required=False)
    state = Choice(choices=RunState.values, required=False)


class StartSerializer(Shape):
    analysis = Choice(choices=list(ANALYSES), help_text="The name of an analysis.")
    generation = Choice(choices=list(GENERATIONS), required=False, help_text="The active one unless given.")
    to_generation = Choice(choices=list(GENERATIONS), required=False)
    namespace = Text(required=False, max_length=200, help_text="Only this live namespace; all of them unless given.")


class ResultsQuery(PageQuery):
    namespace = Text(required=False, max_length=200, help_text="Only rows of this namespace, where the table has that column.")
    user = NameText(required=False, help_text="Only rows of this user, where the table has that column.")
    change = Choice(choices=list(CHANGES), required=False, help_text="Only rows that changed so; of the table `changes`.")


class CsvRenderer(BaseRenderer):
    """For the choice of an answer and the document; the view makes the file itself."""

    media_type, format = "text/csv", "csv"


class ParquetRenderer(CsvRenderer):
    media_type, format = "application/vnd.apache.parquet", "parquet"


class JsonLinesRenderer(CsvRenderer):
    media_type, format = "application/x-ndjson", "jsonl"


RUN = {"number": 7, "analysis": AnalysisName.DELETE_READINESS.value, "options": {"generation": "final", "namespace": ""},
       "state": "waiting",
       "stage": "", "cancel_requested": False, "tasks_done": 0, "tasks_total": 0, "requested_by": "admin", "scheduled": False,
       "requested_at": "2026-02-01T08:00:00Z", "started_at": None, "finished_at": None, "revision": None,
       "waiting_reason": "It starts within seconds.", "silent_seconds": None, "results_removed_at": None, "error": "",
       "summary": {}}
ANALYSIS = {"name": AnalysisName.DELETE_READINESS.value, "title": "Delete readiness", "options": ["generation", "namespace"],
            "question": "Who can delete which namespace, and which grants are missing?",
            "tables": [{"name": "rows", "key": ["namespace", "user"], "columns": [{"name": "namespace", "type": "string"}]}]}
ROWS = {"items": [{"namespace": "sales", "user": "sofia.lindqvist", "required": 12, "held": 11, "missing": 1, "ready": False}],
        "next": None, "total": 1}


class Analyses(Endpoint):
    @described("analyses_list", TAG, "List the analyses", "With the options that each takes and the tables that it writes.",
               answers={200: AnalysesSerializer}, example={"items": [ANALYSIS]})
    def get(self, request: Request) -> Response:
        return Response({"items": [_analysis_as_json(analysis) for analysis in ANALYSES.values()]})


class Runs(Endpoint):
    queries = {"GET": RunsQuery}

    @described("runs_list", TAG, "List runs", "Newest first. For administrators and auditors.", query=RunsQuery,
               answers={200: page_shape(RunSerializer)}, example={"items": [RUN | {"waiting_reason": ""}], "next": None})
    def get(self, request: Request) -> Response:
        check_overseer(request)
        query = self.query
        rows = AnalysisRun.objects.select_related("requested_by")
        rows = rows.filter(**{name: query[name] for name in ("analysis", "state") if name in query})
        return Response(page_of([Part(rows, ("-pk",))], _run_as_json, query=query, identity=list_identity("runs", query)))

    @described("runs_start", TAG, "Start an analysis", "The run waits for a worker; Location says where to follow it.",
               sends=StartSerializer, sent={"analysis": AnalysisName.DELETE_READINESS.value, "generation": "final"},
               answers={202: RunSerializer}, example=RUN, parameters=[LOCATION])
    def post(self, request: Request) -> Response:
        check_administrator(request)
        sent = self.body(StartSerializer)
        run = request_run(analysis=sent.pop("analysis"), options=sent, requested_by=request.user)
        response = created_response(_followed_as_json(run), run_location(run.pk))
        response.status_code = 202
        return response


class OneRun(Endpoint):
    @described("runs_retrieve", TAG, "Follow a run",
               "Its state, and of a finished one the figures. For administrators and auditors.",
               answers={200: RunSerializer}, example=RUN, errors=[404], parameters=[RUN_PATH])
    def get(self, request: Request, number: int) -> Response:
        check_overseer(request)
        return Response(_followed_as_json(_run(number)))


class Cancellation(Endpoint):
    @described("runs_cancel", TAG, "Cancel a run",
               "One that waits ends at once, one that runs within seconds, and says `cancel_requested` until then; one that is "
               "over stays as it is. No body.",
               answers={200: RunSerializer}, example=RUN | {"state": "cancelled", "cancel_requested": True},
               errors=[404, 413, 415], parameters=[RUN_PATH])
    def post(self, request: Request, number: int) -> Response:
        check_administrator(request)
        run = _run(number)
        self.check_empty_body()
        cancel_run(run=run)
        return Response(_followed_as_json(_run(number)))


class Results(Endpoint):
    queries = {"GET": ResultsQuery}

    @described("runs_results", TAG, "Read a report's table",
               "Page by page, in the order of its key. `changes` tells what the rows were before and are now. 409 while the run "
               "is not done, and where its report was made without that table; 410 once it is not kept any longer. For "
               "administrators and auditors.",
               query=ResultsQuery, answers={200: ResultsSerializer}, example=ROWS, errors=[404, 409, 410],
               parameters=[RUN_PATH, TABLE_PATH])
    def get(self, request: Request, number: int, table: str) -> Response:
        run, found = _finished(request, number, table)
        query, identity = self.query, ["results", number, table, *list_identity("", self.query)]
        first = position_in_list(query["cursor"], identity) if query["cursor"] else 0
        page = result_page(run, found.name, where=ResultFilter(equal=_equal(found, query)), first_row=first,
                           most_rows=query["limit"])
        end = first + len(page.rows)
        following = cursor_for(end, identity) if end < page.total_rows else None
        return Response({"items": page.rows, "next": following, "total": page.total_rows})


class _ResultsFile(Endpoint):
    """A table as one file. It is written to the end before the first byte is sent, so that a fault is told as one."""

    def get(self, request: Request, number: int, table: str) -> FileResponse:
        run, found = _finished(request, number, table)
        readable_table(run, found.name)
        renderer = self.renderer_classes[0]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{run.analysis}-{run.pk}-{found.name}.{renderer.format}"
            export_table(found, run.result_folder, path)
            # the folder goes, the open file stays readable until it is sent
            return FileResponse(path.open("rb"), as_attachment=True, filename=path.name, content_type=renderer.media_type)


class ResultsCsv(_ResultsFile):
    renderer_classes = [CsvRenderer]

    @described("runs_results_csv", TAG, "Download a report's table as CSV",
               "All rows, in the order of its key, each value exactly as it is. The pages' own download puts an apostrophe "
               "before what a spreadsheet would compute.",
               answers={(200, "text/csv"): FILE}, errors=[404, 409, 410], parameters=[RUN_PATH, TABLE_PATH])
    def get(self, request: Request, number: int, table: str) -> FileResponse:
        return super().get(request, number, table)


class ResultsParquet(_ResultsFile):
    renderer_classes = [ParquetRenderer]

    @described("runs_results_parquet", TAG, "Download a report's table as Parquet", "All rows, in the order of its key.",
               answers={(200, "application/vnd.apache.parquet"): FILE}, errors=[404, 409, 410],
               parameters=[RUN_PATH, TABLE_PATH])
    def get(self, request: Request, number: int, table: str) -> FileResponse:
        return super().get(request, number, table)


class ResultsJsonLines(_ResultsFile):
    renderer_classes = [JsonLinesRenderer]

    @described("runs_results_jsonl", TAG, "Download a report's table as JSON Lines",
               "All rows, one object a line, in the order of its key.", answers={(200, "application/x-ndjson"): FILE},
               errors=[404, 409, 410], parameters=[RUN_PATH, TABLE_PATH])
    def get(self, request: Request, number: int, table: str) -> FileResponse:
        return super().get(request, number, table)


def _run(number: int) -> AnalysisRun:
    run = AnalysisRun.objects.select_related("requested_by").filter(pk=number).first() if number <= LARGEST_NUMBER else None
    if run is None:
        raise Http404
    return run


def _finished(request: Request, number: int, table: str) -> tuple[AnalysisRun, Table]:
    """Raises Http404 where there is no such run or table, Problem where it has no report."""
    check_overseer(request)
    run = _run(number)
    try:
        found = analysis_named(run.analysis).table(table)
    except AnalysisError as error:
        raise Problem(404, str(error)) from None
    if run.state != RunState.DONE:
        raise Problem(409, f"run {run.pk} is {run.state}: it has no report")
    return run, found


def _equal(table: Table, query: dict) -> dict:
    equal = {name: query[name] for name in ("namespace", "user", "change") if name in query}
    if strange := [name for name in equal if name not in table.column_names]:
        raise Problem(400, f"the table `{table.name}` has no column `{strange[0]}`; it has {', '.join(table.column_names)}",
                      errors=[{"field": name, "message": "no such column"} for name in strange])
    return equal


def _analysis_as_json(analysis: Analysis) -> dict:
    return {"name": analysis.name, "title": analysis.title, "question": analysis.question, "options": list(analysis.options),
            "tables": list(map(_table_as_json, analysis.tables))}


def _table_as_json(table: Table) -> dict:
    return {"name": table.name, "key": list(table.key), "columns": list(map(_column_as_json, table.columns))}


def _column_as_json(column: Column) -> dict:
    return {"name": column.name, "type": str(column.type)}


def _run_as_json(run: AnalysisRun) -> dict:
    return {"number": run.pk, "analysis": run.analysis, "options": run.options, "state": str(run.state),
            "stage": str(run.stage) if run.state == RunState.RUNNING else "",
            "cancel_requested": run.cancel_requested_at is not None,
            "tasks_done": run.tasks_done, "tasks_total": run.tasks_total,
            "requested_by": run.requested_by.username if run.requested_by else None, "scheduled": run.is_scheduled,
            "requested_at": as_json_time(run.requested_at), "started_at": as_json_time(run.started_at),
            "finished_at": as_json_time(run.finished_at), "revision": run.revision, "waiting_reason": "",
            "silent_seconds": run_silent_seconds(run), "results_removed_at": as_json_time(run.results_removed_at),
            "error": run.error, "summary": run.summary}


def _followed_as_json(run: AnalysisRun) -> dict:
    return _run_as_json(run) | {"waiting_reason": run_waiting_reason(run)}
