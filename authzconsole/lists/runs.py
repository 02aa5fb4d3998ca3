"""The lists of runs and of their figures, and the members of analyses and schedules."""

from django.db.models import QuerySet
from rest_framework import serializers

from analytics.analyses import ANALYSES, AnalysisName
from analytics.models import AnalysisRun, Figure
from analytics.runs.selectors import SILENT_AFTER_SECONDS, run_silent_seconds, run_waiting_reason
from analytics.stages import RunStage
from analytics.tables import ColumnType
from authzconsole.common import output
from authzconsole.common.fields import Choice, QuerySerializer, Text, Time
from authzconsole.lists.base import List
from grants.models import JobState
from grants.roles.capabilities import Capability


class ColumnSerializer(output.Output):
    name = output.Text(example="namespace")
    type = output.Choice([str(type_) for type_ in ColumnType], example="string")


class TableSerializer(output.Output):
    name = output.Text(example="rows")
    key = output.Texts(
        example=["namespace", "user"],
        help_text="The columns that identify a row. The rows are sorted by them.",
    )
    columns = ColumnSerializer(many=True)


class AnalysisSerializer(output.Output):
    name = output.Text(example=AnalysisName.DELETE_READINESS.value)
    title = output.Text(example="Delete readiness")
    question = output.Text(example="Who can delete which namespace, and which grants are missing?")
    options = output.Texts(example=["generation", "namespace"], help_text="The options of a run.")
    tables = TableSerializer(many=True)


class AnalysesSerializer(output.Output):
    items = AnalysisSerializer(many=True)


class RunSerializer(output.Output):
    number = output.Integer(source="pk", example=7)
    analysis = output.Text(source="type", example=AnalysisName.DELETE_READINESS.value)
    options = output.Record(
        child=serializers.CharField(allow_blank=True), example={"generation": "final", "namespace": ""}
    )
    state = output.Choice(JobState.values)
    stage = output.Text(
        get=lambda run: run.stage if run.state == JobState.RUNNING else "",
        help_text=f"The stage of a running run: {', '.join(RunStage)}; otherwise empty.",
    )
    cancel_requested = output.Boolean(
        get=lambda run: run.cancel_requested_at is not None,
        help_text="Whether the cancellation of the run was requested. A running run stops within seconds.",
    )
    tasks_done = output.Integer(source="steps_done")
    tasks_total = output.Integer(source="steps_total")
    requested_by = output.Text(source="requested_by.username", allow_null=True, example="admin")
    scheduled = output.Boolean(
        source="is_scheduled", help_text="Whether the schedule of the analysis started the run."
    )
    requested_at = output.Time()
    started_at = output.Time(allow_null=True)
    finished_at = output.Time(allow_null=True)
    revision = output.Integer(allow_null=True, help_text="The revision of the snapshot.")
    waiting_reason = output.Text(
        get=lambda run: getattr(run, "waiting_reason", ""),
        help_text="Why a waiting run has not started; empty in lists.",
    )
    silent_seconds = output.Integer(
        get=run_silent_seconds,
        allow_null=True,
        help_text=f"Seconds since the last heartbeat of a running run. A healthy worker sends one every "
        f"second. After {SILENT_AFTER_SECONDS} s without one, the worker probably has a problem.",
    )
    results_removed_at = output.Time(
        source="result_removed_at", allow_null=True, help_text="When the report of the run was removed."
    )
    signed = output.Boolean(
        source="result_hash",
        help_text="Whether the report is signed, so that changes to its files are noticed. False until the run is done.",
    )
    error = output.Text()
    summary = output.Record(
        help_text="The figures of the report. `changes` has the number of the previous run of the same analysis with the same "
        "options, and how many rows were added, removed and changed since then; see the table `changes`. "
        "`comparison_fault` says why that comparison failed, and `snapshot_fault` why an earlier snapshot of the "
        "revision was damaged and replaced."
    )


def with_waiting_reason(run: AnalysisRun) -> AnalysisRun:
    """Return the run with the reason why it waits, which its JSON object then has too."""
    run.waiting_reason = run_waiting_reason(run)  # type: ignore[attr-defined]
    return run


class RunFilters(QuerySerializer):
    analysis = Choice(
        choices=list(ANALYSES),
    )
    state = Choice(
        choices=JobState.values,
    )


class Runs(List):
    """The runs of analyses, newest first."""

    name = "runs"
    output = RunSerializer
    filter_fields = RunFilters
    order = ("-pk",)
    readers = (Capability.READ_REPORTS,)

    def select(self) -> QuerySet[AnalysisRun]:
        rows = AnalysisRun.objects.select_related("requested_by")
        return rows.filter(**self.equal(analysis="type", state="state"))


class FigureSerializer(output.Output):
    finished_at = output.Time(help_text="When the run finished.")
    analysis = output.Text(example=AnalysisName.STRANDED.value)
    options = output.Record(
        child=serializers.CharField(allow_blank=True),
        example={"generation": "final"},
        help_text="The options of the run. Figures of the same analysis with the same options are comparable.",
    )
    figure = output.Text(
        source="name",
        example="entities_nobody_administers",
        help_text="A figure of the report, or of the work of the run: `tasks`, or a name that ends with its unit.",
    )
    namespace = output.Text(
        source="subject", example="", help_text="The namespace that the figure is about; empty for all."
    )
    value = output.Integer(example=4)
    run = output.Integer(
        source="run_id",
        allow_null=True,
        example=7,
        help_text="The number of the run; null if it did not run in this console.",
    )


class FigureFilters(QuerySerializer):
    analysis = Choice(
        choices=list(ANALYSES),
    )
    figure = Text(max_length=60)
    namespace = Text(max_length=200, help_text="Only figures about this namespace.")
    since = Time(help_text="Only runs that finished at or after this time.")
    until = Time(help_text="Only runs that finished before this time.")


class Figures(List):
    """The figures of runs, newest first."""

    name = "trends"
    output = FigureSerializer
    filter_fields = FigureFilters
    columns = ("finished_at", "analysis", "figure", "namespace", "value", "run")
    order = ("-pk",)
    readers = (Capability.READ_REPORTS,)

    def select(self) -> QuerySet[Figure]:
        return Figure.objects.filter(
            **self.equal(
                analysis="analysis",
                figure="name",
                namespace="subject",
                since="finished_at__gte",
                until="finished_at__lt",
            )
        )
