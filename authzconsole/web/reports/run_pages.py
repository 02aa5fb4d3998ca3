"""The pages of analysis runs: list, start, follow and cancel runs, read their reports, and schedule nightly runs."""

import re
from collections.abc import Iterator
from datetime import time, timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from analytics.analyses import ANALYSES, OPTIONS, AnalysisError, AnalysisName, Option
from analytics.java import java_problem
from analytics.models import AnalysisRun, Schedule
from analytics.runs.figures import work_of_run
from analytics.runs.schedules import all_schedules, change_schedule, schedule_by_name, switch_all_schedules
from analytics.runs.selectors import changes_since, latest_runs, run_progress
from analytics.runs.services import cancel_run, request_run
from analytics.stages import RunStage
from authzconsole.web.forms import ConsoleForm, FormPage, TextField, reason_field
from authzconsole.web.reports.cell_links import exact_value
from authzconsole.web.reports.charts.report_charts import report_chart
from authzconsole.web.reports.charts.trends import figure_label, report_trends, trend_days
from authzconsole.web.reports.readiness import namespaces_section
from authzconsole.web.reports.results import REPORT_ERRORS, changes_sentence, report_fault, run_or_404
from authzconsole.web.reports.role_size import role_size
from authzconsole.web.reports.summary import HIDDEN_FIGURES, report_summary, use_coverage
from authzconsole.web.reports.table import DETAIL_NAMES, table_or_fault
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.paging import paginate_sequence
from authzconsole.web.shared.parameters import number_of
from authzconsole.web.shared.rendering import render_page, requested_section, see_other, show_outcome
from entities.frozen import frozen
from entities.vocabulary import quantity
from grants.active_generation import active_generation
from grants.models import JobState
from grants.plans.apply import applied_plan
from grants.plans.create import PlanOrigin
from grants.plans.sources.redundant import RedundantPart
from grants.policies.catalogue import GENERATIONS
from grants.policies.times import parse_time
from grants.roles.capabilities import Capability

RUNS_PER_PAGE = 20
# the page asks more often during this time, in which a run on a small tenant ends
SHORT_RUN = timedelta(seconds=5)
# by the id of a section: its context, and its template reports/_NAME.html
SECTIONS = {"namespaces": "namespaces", "rows": "table", "role-size": "role_size"}


@frozen
class CleanUp:
    """A form that creates a plan from what an analysis finds.

    url_name: of the page that creates it. parts: the choices of what the plan takes away, with their labels.
    """

    title: str
    text: str
    url_name: str
    parts: tuple[tuple[str, str], ...] = ()

    @property
    def url(self) -> str:
        return reverse(self.url_name)


# the reports that a plan is made from, by the number of their run
PLAN_ORIGINS = {
    AnalysisName.POLICY_IMPACT: PlanOrigin.POLICY_IMPACT,
    AnalysisName.ROLE_MINING: PlanOrigin.ROLE_MINING,
}
CLEAN_UPS = {
    AnalysisName.GHOST_GRANTS: CleanUp(
        "Revoke leftover grants",
        "Creates a plan that revokes all grants on deleted addresses, also those of inactive users, which the report "
        "leaves out. Grants on planned addresses remain.",
        "plan-ghosts",
    ),
    AnalysisName.REDUNDANT: CleanUp(
        "Take away redundant access",
        "Creates a plan that changes no answer: privileges remain through groups, and inactive users are denied everything. "
        "Activated again, these users would not get their access back. Memberships remain if a namespace is given.",
        "plan-redundant",
        (
            (RedundantPart.GRANTS, "Direct grants that groups give too"),
            (RedundantPart.MEMBERSHIPS, "Memberships without effect"),
            (RedundantPart.INACTIVE, "Grants and memberships of inactive users"),
            (RedundantPart.ALL, "All of these"),
        ),
    ),
    AnalysisName.UNUSED: CleanUp(
        "Revoke unused grants",
        "Creates a plan that revokes the grants that none of their users used in the window, and that are older than it. "
        "Grants on containers remain if anything inside was used, and the grants of a group if one member used them.",
        "plan-unused",
    ),
}


class OptionsForm(ConsoleForm):
    """The options of an analysis, each in a field with its name."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for name in OPTIONS:
            self.fields[name] = TextField()

    @classmethod
    def initial_from(cls, parameters: QueryDict) -> dict[str, Any]:
        options = {name: parameters[name] for name in OPTIONS if name in parameters}
        return super().initial_from(parameters) | options

    @property
    def option_fields(self) -> list[tuple[Option, forms.BoundField]]:
        return [(option, self[name]) for name, option in OPTIONS.items()]


class StartForm(OptionsForm):
    """The analysis and its options. The page hides the options of other analyses, but the browser still sends them."""

    analysis = TextField()

    def options(self) -> dict[str, str]:
        values = self.cleaned_data
        names = ANALYSES[values["analysis"]].options if values["analysis"] in ANALYSES else ()
        return {name: values[name] for name in names if values[name]}


class RunList(FormPage):
    """List the runs and the schedules, with the form that starts a run."""

    http_method_names = ("get", "head")
    capabilities = (Capability.READ_REPORTS,)
    form_class = StartForm
    template_name = "reports/list.html"

    def get_context_data(self, **context) -> dict:
        context = super().get_context_data(**context)
        runs = AnalysisRun.objects.filter(type__in=ANALYSES).select_related("requested_by")
        runs = runs.order_by("-requested_at", "-pk")
        page = paginate_sequence(self.request, runs, max_rows=RUNS_PER_PAGE)
        schedules, newest = all_schedules(), latest_runs(*ANALYSES)
        return context | {
            "analyses": list(ANALYSES.values()),
            "page": page,
            "rows": [run_context(run) for run in page.rows],
            "generations": list(GENERATIONS),
            "active_generation": active_generation().name,
            "can_start": self.request.user.can(Capability.RUN_ANALYSES),
            "java_problem": java_problem(),
            "schedules": [
                (
                    schedule,
                    ANALYSES[schedule.analysis],
                    _options_text(schedule),
                    newest.get(schedule.analysis),
                )
                for schedule in schedules
            ],
            "scheduled_total": sum(schedule.is_on for schedule in schedules),
        }


class StartRun(RunList):
    http_method_names = ("post",)
    capabilities = (Capability.RUN_ANALYSES,)
    visible_to = (Capability.READ_REPORTS,)

    def perform(self, form: StartForm) -> HttpResponse:
        run = request_run(
            analysis=form.cleaned_data["analysis"],
            options=form.options(),
            requested_by=self.request.user,
            author=request_author(self.request),
        )
        return see_other(reverse("analysis", args=[run.pk]))


def run_context(run: AnalysisRun) -> dict:
    """Return what the list of runs and the page of a run show of it."""
    names = (run.options.get(name) for name in ("generation", "to_generation"))
    started, finished = run.started_at, run.finished_at or timezone.now()
    return {
        "run": run,
        "analysis": ANALYSES[run.type],
        "generation": " to ".join(filter(None, names)),
        "other_options": [
            (OPTIONS[name].label.lower(), value)
            for name, value in run.options.items()
            if value and name in OPTIONS and name not in ("generation", "to_generation", "namespace")
        ],
        "data_at": parse_time(at) if (at := run.summary.get("at")) else None,
        "elapsed_seconds": (finished - started).total_seconds() if started else None,
    }


@require_safe
@capability_required(Capability.READ_REPORTS)
def run_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a run, and its report when it is done. Queries Redis while the run waits."""
    run, section = run_or_404(pk), requested_section(request)
    is_done, analysis = run.state == JobState.DONE, ANALYSES[run.type]
    is_section = is_done and section in SECTIONS
    context = {
        **run_context(run),
        "details": run_progress(run),
        "changes_since": changes_since(run),
        "changes_sentence": changes_sentence(run),
        "warnings": list(_warnings(run)),
        "clean_up": CLEAN_UPS.get(run.type),
        "detail_name": DETAIL_NAMES.get(run.type, "detail rows"),
        # the tables that this page does not show
        "other_outputs": [] if run.type == AnalysisName.DELETE_READINESS else analysis.outputs[1:],
        "url": reverse("analysis", args=[run.pk]),
        "refresh_interval": "250ms" if timezone.now() - run.requested_at < SHORT_RUN else "1s",
        "section": section,
        "can_cancel": request.user.can(Capability.RUN_ANALYSES),
        "applied": applied_plan(PLAN_ORIGINS[run.type], run=run.pk)
        if is_done and run.type in PLAN_ORIGINS and request.user.can_see_all
        else None,
    }
    if is_done and run.type == AnalysisName.UNUSED:
        context["use"] = use = use_coverage(run)
        if not use.is_known:
            return _report_page(
                request, context | {"clean_up": None, "other_outputs": [], "changes_sentence": ""}
            )
    if is_done and section in ("", "run", "role-size") and run.type == AnalysisName.ROLE_MINING:
        try:
            context["role_size"] = role_size(run, number_of(request.GET.get("size", "")))
        except REPORT_ERRORS as error:
            context["report_fault"] = report_fault(run, error)
    if is_done and section not in ("namespaces", "role-size"):
        context |= table_or_fault(request, run, analysis.rows)
    if is_done and section not in ("rows", "role-size") and run.type == AnalysisName.DELETE_READINESS:
        try:
            context["namespaces"] = namespaces_section(request, run)
        except REPORT_ERRORS as error:
            context["report_fault"] = report_fault(run, error)
    if is_section:
        is_readable = SECTIONS[section] in context
        template = f"reports/_{SECTIONS[section]}.html" if is_readable else "reports/_unreadable.html"
        return render_page(request, template, context)
    if is_done:
        context["chart"] = report_chart(run, exact_value(request.GET.get("user", "")))
        context["summary"] = report_summary(run, context["chart"])
        context["trends"] = report_trends(run)
        context["trend_days"] = trend_days(context["trends"])
        context["work"] = _work(run)
        context["figures"] = [
            (run.summary.get(name, 0), figure_label(name))
            for name in analysis.figures
            if name not in HIDDEN_FIGURES
        ]
    return _report_page(request, context)


def _report_page(request: HttpRequest, context: dict) -> HttpResponse:
    name = "reports/_run.html" if context["section"] == "run" else "reports/run.html"
    return render_page(request, name, context)


# by name of a figure of the work: its label
WORK_LABELS = {
    "snapshot_rows": "Rows of the snapshot",
    "snapshot_bytes": "Size of the snapshot",
    "result_rows": "Rows of the report",
    "result_bytes": "Size of the report",
    "tasks": "Tasks of Spark",
    **{f"{stage}_milliseconds": stage.label for stage in RunStage},
    "python_peak_bytes": "Peak memory of the worker",
    "java_peak_bytes": "Peak memory of Spark's Java process",
}


def _work(run: AnalysisRun) -> list[tuple[str, str]]:
    """Return the label and the value with its unit of each figure of the work of a run."""
    work = work_of_run(run)
    return [(label, _with_unit(name, work[name])) for name, label in WORK_LABELS.items() if name in work]


def _with_unit(name: str, value: int) -> str:
    if name.endswith("_bytes"):
        return filesizeformat(value)
    return f"{value / 1_000:,.1f} s" if name.endswith("_milliseconds") else f"{value:,}"


def _warnings(run: AnalysisRun) -> Iterator[str]:
    if fault := run.summary.get("comparison_fault"):
        yield f"The comparison with run {fault['run']} failed: {fault['reason']}."
    if fault := run.summary.get("snapshot_fault"):
        yield f"An earlier snapshot of this revision was damaged ({fault}), so this run took a new one."


@require_POST
@capability_required(Capability.RUN_ANALYSES, visible_to=[Capability.READ_REPORTS])
def cancel_run_view(request: HttpRequest, pk: int) -> HttpResponse:
    run = run_or_404(pk)
    if cancel_run(run=run, author=request_author(request)):
        messages.info(request, f"Run {run.pk} is being cancelled.")
    else:
        messages.info(request, f"Run {run.pk} has already finished. Nothing changed.")
    return see_other(reverse("analysis", args=[run.pk]))


TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def _options_text(schedule: Schedule) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in schedule.options.items())


class ScheduleForm(OptionsForm):
    """When an analysis runs, and with which options. off: switch it off."""

    at = TextField(label="Time, in UTC", required=True, widget=forms.TextInput(attrs={"type": "time"}))
    reason = reason_field()
    off = TextField()

    def clean_at(self) -> time:
        if not TIME_OF_DAY.fullmatch(self.cleaned_data["at"]):
            raise ValidationError("Enter the time as hours and minutes in UTC, such as 02:30.")
        return time.fromisoformat(self.cleaned_data["at"])


class SchedulePage(FormPage):
    capabilities = (Capability.RUN_ANALYSES,)
    visible_to = (Capability.READ_REPORTS,)
    form_class = ScheduleForm
    template_name = "reports/schedule.html"

    def prepare(self) -> None:
        try:
            self.schedule = schedule_by_name(self.kwargs["analysis"])
        except AnalysisError:
            raise Http404("there is no such analysis") from None

    def get_initial(self) -> dict:
        return {**self.schedule.options, "at": f"{self.schedule.at:%H:%M}"}

    def perform(self, form: ScheduleForm) -> HttpResponse:
        values = form.cleaned_data
        outcome = change_schedule(
            author=self.author(form),
            analysis=self.schedule.analysis,
            is_on="off" not in form.data,
            at=values["at"],
            options={name: values[name] for name in OPTIONS},
        )
        show_outcome(self.request, outcome)
        return see_other(reverse("analyses"))

    def get_context_data(self, **context) -> dict:
        definition = ANALYSES[self.schedule.analysis]
        return super().get_context_data(**context) | {
            "analysis": definition,
            "is_on": self.schedule.is_on,
            "generations": list(GENERATIONS),
            "action": reverse("analysis-schedule", args=[definition.name]),
            "options": definition.options,
        }


class SwitchForm(ConsoleForm):
    switch = TextField()


class SwitchAllSchedules(FormPage):
    """Switch all schedules on or off, as the posted `switch` says."""

    http_method_names = ("post",)
    capabilities = (Capability.RUN_ANALYSES,)
    visible_to = (Capability.READ_REPORTS,)
    form_class = SwitchForm

    def perform(self, form: SwitchForm) -> HttpResponse:
        is_on = form.cleaned_data["switch"] == "on"
        outcomes = switch_all_schedules(author=request_author(self.request), is_on=is_on)
        word = "run every night now" if is_on else "are no longer scheduled"
        messages.add_message(
            self.request,
            messages.SUCCESS if outcomes else messages.INFO,
            f"{quantity(len(outcomes), 'analysis', 'analyses')} {word}." if outcomes else "Nothing changed.",
        )
        return see_other(reverse("analyses"))
