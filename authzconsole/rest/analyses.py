"""The REST resources `analyses`, `runs` and `schedules`: list analyses, start and cancel runs, read reports, and
run analyses every night.
"""

import re
from datetime import time
from pathlib import Path

from django.conf import settings
from django.http import FileResponse
from rest_framework import serializers
from rest_framework.response import Response

from analytics.analyses import ANALYSES, OPTIONS, AnalysisError, AnalysisName, Option, analysis_by_name
from analytics.folders import scratch_folder
from analytics.models import AnalysisRun, FigureAlert, Schedule
from analytics.results.compare import CHANGES
from analytics.results.export import DOWNLOAD_FORMATS, export_table
from analytics.results.query import ResultFilter
from analytics.results.read import readable_table, report_manifest, result_page
from analytics.runs.alerts import MAX_RECIPIENTS, MAX_VALUE, add_alert, delete_alert
from analytics.runs.schedules import all_schedules, change_schedule, schedule_by_name
from analytics.runs.services import cancel_run, request_run
from analytics.tables import Table
from authzconsole.common import output
from authzconsole.common.fields import (
    Boolean,
    Choice,
    ErrorMessages,
    Integer,
    List,
    NameText,
    StrictSerializer,
    Text,
    generation_field,
    reason_field,
)
from authzconsole.lists.runs import AnalysesSerializer, Figures, Runs, RunSerializer, with_waiting_reason
from authzconsole.rest.framework.callers import any_account, changeable_with, check_report_reader
from authzconsole.rest.framework.endpoint import EmptySerializer, Endpoint, Resource
from authzconsole.rest.framework.lists import (
    FORMULAS,
    RENDERERS,
    Download,
    ListEndpoint,
    PageQuery,
    cursor_for,
    list_identity,
    position_in_list,
)
from authzconsole.rest.framework.operations import (
    ETAG,
    IF_MATCH_OPTIONAL,
    LOCATION,
    operation,
    path_parameter,
)
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.people import OutcomeSerializer
from grants.authority.transactions import administrator_transaction
from grants.journal import current_revision
from grants.models import JobState
from grants.outcomes import Outcome
from grants.roles.capabilities import Capability

TIME_FORMAT = r"^([01]\d|2[0-3]):[0-5]\d$"


class TimeOfDay(output.Member, serializers.RegexField):
    def to_representation(self, value: time) -> str:
        return f"{value:%H:%M}"


class ScheduleSerializer(output.Output):
    analysis = output.Choice(list(ANALYSES))
    on = output.Boolean(source="is_on")
    at = TimeOfDay(TIME_FORMAT, help_text="The time of day in UTC, HH:MM.")
    options = output.Record(
        child=serializers.CharField(),
        help_text="The options of the run. Without a generation, the run uses the active generation of the night.",
    )


class SchedulesSerializer(output.Output):
    items = ScheduleSerializer(many=True)


class MinuteText(ErrorMessages, serializers.RegexField):
    def __init__(self, **options):
        super().__init__(TIME_FORMAT, trim_whitespace=False, **options)
        self.error_messages["invalid"] = "this must be a time such as 02:30, in UTC"

    def to_internal_value(self, data):
        if not isinstance(data, str):
            raise serializers.ValidationError("this must be a string")
        # not `match`, because `$` also matches before a final line break
        if not re.fullmatch(TIME_FORMAT, data):
            self.fail("invalid")
        return data


class Number(ErrorMessages, serializers.FloatField):
    def to_internal_value(self, data):
        if isinstance(data, bool) or not isinstance(data, int | float):
            raise serializers.ValidationError("this must be a number")
        return data


def _option_field(option: Option) -> serializers.Field:
    text = f"{option.help[0].upper()}{option.help[1:]}. For {option.analyses}."
    if option.is_generation:
        return generation_field(text)
    if option.least is not None:
        return Integer(min_value=option.least, required=False, help_text=text)
    if option.name in ("share", "surplus"):
        return Number(required=False, help_text=text)
    return Text(required=False, max_length=200, help_text=text)


class OptionsSerializer(StrictSerializer):
    """The options of an analysis."""

    def get_fields(self) -> dict[str, serializers.Field]:
        return super().get_fields() | {name: _option_field(option) for name, option in OPTIONS.items()}

    @staticmethod
    def options_of(data: dict) -> dict[str, str]:
        """Return the options among the members of a body."""
        return {name: str(data[name]) for name in OPTIONS if name in data}


class SwitchSerializer(OptionsSerializer):
    """A schedule: whether the analysis runs every night, when, and with which options."""

    on = Boolean(help_text="Whether it runs every night.")
    at = MinuteText(required=False, help_text="The time of day in UTC; by default unchanged.")
    reason = reason_field()


def _schedule(analysis: str) -> Schedule:
    try:
        return schedule_by_name(analysis)
    except AnalysisError as error:
        raise Problem(404, str(error)) from None


SCHEDULE = Resource(
    "analysis", f"One of {', '.join(ANALYSES)}.", lambda request, analysis: _schedule(analysis)
)


class Schedules(Endpoint):
    route = "schedules"

    @operation("schedules_list", check_report_reader, SchedulesSerializer)
    def get(self) -> object:
        """List schedules.

        Every analysis with its schedule; schedules are off by default. For administrators and auditors.
        """
        return {"items": all_schedules()}


class ScheduleDetail(Endpoint):
    route = "schedules/<slug:analysis>"
    resource = SCHEDULE

    @operation("schedules_retrieve", check_report_reader, ScheduleSerializer, parameters=[ETAG])
    def get(self) -> object:
        """Read a schedule.

        For administrators and auditors.
        """
        return self.object

    @operation(
        "schedules_change",
        changeable_with(Capability.RUN_ANALYSES),
        ScheduleSerializer,
        body=SwitchSerializer,
        errors=[412],
        parameters=[IF_MATCH_OPTIONAL, ETAG],
    )
    def put(self) -> object:
        """Change a schedule.

        The request replaces all options of the schedule. In runs that a schedule starts, `scheduled` is
        true.
        """
        data, name = self.data, self.kwargs["analysis"]
        options = OptionsSerializer.options_of(data)
        # locked, so that the schedule cannot change between the check and the change
        with administrator_transaction(self.author, capability=Capability.RUN_ANALYSES):
            schedule = _schedule(name)
            self.check_etag(schedule, is_required=False)
            at = time.fromisoformat(data["at"]) if "at" in data else schedule.at
            change_schedule(author=self.author, analysis=name, is_on=data["on"], at=at, options=options)
            return _schedule(name)


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


class StartSerializer(OptionsSerializer):
    """An analysis with its options."""

    analysis = Choice(choices=list(ANALYSES), help_text="The name of an analysis.")


class ResultsQuery(PageQuery):
    namespace = Text(max_length=200, help_text="Only rows of this namespace, for tables with this column.")
    user = NameText(help_text="Only rows of this user, for tables with this column.")
    change = Choice(
        choices=list(CHANGES),
        help_text="Only rows with this change, for the table `changes`.",
    )


class Analyses(Endpoint):
    route = "analyses"

    @operation(
        "analyses_list",
        any_account,
        AnalysesSerializer,
    )
    def get(self) -> object:
        """List the analyses.

        Each analysis has its options and the tables of its report.
        """
        return {"items": ANALYSES.values()}


class FigureList(ListEndpoint):
    """List figures.

    The figures of the reports and of the work of runs, newest first. They remain for FIGURES_KEPT_DAYS, also when the report
    was removed. For administrators and auditors.
    """

    route = "figures"
    operation_id = "figures_list"
    rows = Figures
    files = {"csv": FORMULAS, "jsonl": ""}


class AlertSerializer(output.Output):
    number = output.Integer(source="pk", example=3)
    analysis = output.Text(example=AnalysisName.STRANDED.value)
    figure = output.Text(example="entities_nobody_administers")
    above = output.Boolean(
        source="is_above", example=True, help_text="Whether it fires above the value; otherwise below."
    )
    value = output.Integer(example=4)
    recipients = output.Texts(example=["security@example.com"], help_text="The addresses that get an e-mail.")
    crossed = output.Boolean(
        source="is_crossed",
        help_text="Whether the newest run crossed the value, with the options of the schedule or the default options. The "
        "alert fires again after a run with the same options that does not.",
    )
    created_by = output.Text()
    created_at = output.Time()


class AlertsSerializer(output.Output):
    items = AlertSerializer(many=True)


class AlertCreationSerializer(StrictSerializer):
    """When an alert fires, and who gets an e-mail. Webhooks with the action `alert-fire` receive it too."""

    analysis = Choice(choices=list(ANALYSES))
    figure = Text(max_length=60, help_text="A figure of the report of the analysis.")
    above = Boolean(default=True, help_text="Whether it fires above the value; otherwise below.")
    value = Integer(
        min_value=0, max_value=MAX_VALUE, help_text="The value. An alert below it needs at least 1."
    )
    recipients = List(
        child=Text(max_length=254),
        default=list,
        max_length=MAX_RECIPIENTS,
        help_text="Email addresses.",
    )
    reason = reason_field()


class AlertDeletionSerializer(StrictSerializer):
    """Why it is deleted."""

    reason = reason_field()


ALERT = Resource.numbered(
    "The number of the alert.",
    lambda request: FigureAlert.objects.all(),
    "there is no alert with the number {}",
)


class Alerts(Endpoint):
    route = "alerts"

    @operation("alerts_list", check_report_reader, AlertsSerializer)
    def get(self) -> object:
        """List alerts.

        Sorted by number. For administrators and auditors.
        """
        return {"items": FigureAlert.objects.order_by("pk")}

    @operation(
        "alerts_create",
        changeable_with(Capability.MANAGE_SETTINGS),
        {201: AlertSerializer},
        body=AlertCreationSerializer,
    )
    def post(self) -> Response:
        """Add an alert.

        It fires when a nightly run, or a run with the default options, crosses the value: once until a run is within it
        again. Location is the URL of the alert.
        """
        data = self.data
        alert = add_alert(
            author=self.author,
            analysis=data["analysis"],
            figure=data["figure"],
            is_above=data["above"],
            value=data["value"],
            recipients=data["recipients"],
        )
        return self.creation_response(alert, "alerts")


class AlertDetail(Endpoint):
    route = "alerts/<int:number>"
    resource = ALERT

    @operation("alerts_retrieve", check_report_reader, AlertSerializer)
    def get(self) -> object:
        """Read an alert.

        For administrators and auditors.
        """
        return self.object

    @operation(
        "alerts_delete",
        changeable_with(Capability.MANAGE_SETTINGS),
        OutcomeSerializer,
        query=AlertDeletionSerializer,
    )
    def delete(self) -> object:
        """Delete an alert."""
        delete_alert(author=self.author, number=self.object.pk)
        return Outcome(True, f"alert {self.object.pk} was deleted", current_revision())


class RunList(ListEndpoint):
    """List runs.

    Sorted by number, newest first. For administrators and auditors.
    """

    route = "runs"
    operation_id = "runs_list"
    rows = Runs

    @operation(
        "runs_start",
        changeable_with(Capability.RUN_ANALYSES),
        {202: RunSerializer},
        body=StartSerializer,
        parameters=[LOCATION],
    )
    def post(self) -> Response:
        """Start an analysis.

        The run waits for a worker. Location is the URL of the run.
        """
        run = request_run(
            analysis=self.data["analysis"],
            options=OptionsSerializer.options_of(self.data),
            requested_by=self.request.user,
            author=self.author,
        )
        return self.creation_response(with_waiting_reason(run), "runs")


class RunDetail(Endpoint):
    route = "runs/<int:number>"
    resource = RUN

    @operation(
        "runs_retrieve",
        check_report_reader,
        RunSerializer,
    )
    def get(self) -> object:
        """Follow a run.

        Returns the state of the run and, when it is done, its figures. For administrators and auditors.
        """
        return with_waiting_reason(self.object)


class RunCancellation(Endpoint):
    route = "runs/<int:number>/cancel"
    resource = RUN

    @operation(
        "runs_cancel",
        changeable_with(Capability.RUN_ANALYSES),
        RunSerializer,
        errors=[413, 415],
    )
    def post(self) -> object:
        """Cancel a run.

        A waiting run ends at once. A running run ends within seconds and has `cancel_requested` until
        then. A finished run is not changed. The request has no body.
        """
        self.check_empty_body()
        cancel_run(run=self.object, author=self.author)
        return with_waiting_reason(self.resource.object_or_404(self.request, self.object.pk))


class Results(Endpoint):
    route = "runs/<int:number>/tables/<slug:table>"
    resource = RUN

    @operation(
        "runs_results",
        check_report_reader,
        ResultsSerializer,
        query=ResultsQuery,
        errors=[409, 410],
        parameters=[TABLE_PATH],
    )
    def get(self) -> Response:
        """Read a report's table.

        Sorted by the key. The table `changes` has the old and new values of rows. Returns 409 while the
        run is not done, if the report has no such table or was changed, and 410 if it was removed. For
        administrators and auditors.
        """
        run, result_table = self.object, _result_table(self.object, self.kwargs["table"])
        query, identity = (
            self.query,
            ["results", self.object.pk, self.kwargs["table"], *list_identity("", self.query)],
        )
        first_row = position_in_list(query["cursor"], identity) if query["cursor"] else 0
        where = ResultFilter(equal=_column_filter(result_table, query))
        page = result_page(run, result_table.name, where=where, first_row=first_row, max_rows=query["limit"])
        end = first_row + len(page.rows)
        next_cursor = cursor_for(end, identity) if end < page.total_rows else None
        return Response({"items": page.rows, "next": next_cursor, "total": page.total_rows})


class ResultFiles(Download):
    """Download a report's table."""

    route = "runs/<int:number>/tables/<slug:table>"
    files_id = "runs_results"
    files_query = EmptySerializer
    rows = Runs
    resource = RUN
    files = {
        "csv": "All rows, sorted by the key. An apostrophe precedes values that a spreadsheet would treat as a formula; the other "
        "formats have unchanged values.",
        "parquet": "All rows, sorted by the key.",
        "jsonl": "All rows, one object per line, sorted by the key.",
    }
    errors = (409, 410)
    parameters = (TABLE_PATH,)

    def file(self, extension: str) -> FileResponse:
        # complete before the first byte is sent, so that an error has an error status
        run, table = self.object, _result_table(self.object, self.kwargs["table"])
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
