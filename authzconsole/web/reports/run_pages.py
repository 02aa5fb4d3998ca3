"""The pages of analysis runs: list, start, follow and cancel runs, and read their reports."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from analytics.analyses import ANALYSES, AnalysisName
from analytics.java import java_problem
from analytics.models import AnalysisRun
from analytics.runs.schedules import all_schedules
from analytics.runs.services import cancel_run, request_run
from authzconsole.web.forms import ConsoleForm, FormPage, TextField
from authzconsole.web.reports.charts.report_charts import report_chart
from authzconsole.web.reports.readiness_report import SECTIONS, report_sections
from authzconsole.web.reports.run_details import run_details, run_or_404, run_summary
from authzconsole.web.reports.schedules import schedule_row
from authzconsole.web.reports.table import table_sections
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.paging import paginate_sequence
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from grants.active_generation import active_generation
from grants.models import JobState
from grants.policies.catalogue import GENERATIONS
from grants.roles.capabilities import Capability

RUNS_PER_PAGE = 20


class StartForm(ConsoleForm):
    """The analysis and its options. The page hides the options of other analyses, but the browser still sends them."""

    analysis = TextField()
    generation = TextField()
    to_generation = TextField()
    namespace = TextField()

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
        page = paginate_sequence(self.request, _RunSequence(), max_rows=RUNS_PER_PAGE, name="page")
        schedules = all_schedules()
        return context | {
            "analyses": list(ANALYSES.values()),
            "page": page,
            "rows": [run_summary(run) for run in page.rows],
            "generations": list(GENERATIONS),
            "generation": context["form"]["generation"].value() or active_generation().name,
            "can_start": self.request.user.can(Capability.RUN_ANALYSES),
            "java_problem": java_problem(),
            "schedules": [schedule_row(schedule) for schedule in schedules],
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


class _RunSequence:
    """All runs, newest first, as a sequence."""

    def __len__(self) -> int:
        return AnalysisRun.objects.filter(type__in=ANALYSES).count()

    def __getitem__(self, bounds: slice) -> list[AnalysisRun]:
        return list(
            AnalysisRun.objects.filter(type__in=ANALYSES)
            .select_related("requested_by")
            .order_by("-requested_at", "-pk")[bounds]
        )


@require_safe
@capability_required(Capability.READ_REPORTS)
def run_page(request: HttpRequest, pk: int) -> HttpResponse:
    run = run_or_404(pk)
    is_done = run.state == JobState.DONE
    context = {
        "run": run,
        "details": run_details(run),
        "can_cancel": request.user.can(Capability.RUN_ANALYSES),
        "url": reverse("analysis", args=[run.pk]),
        "can_change": request.user.can_administer,
        "can_keep_permissions": request.user.can_administer
        and is_done
        and run.type == AnalysisName.POLICY_IMPACT,
        "can_clean_up": request.user.can_administer and is_done and run.type == AnalysisName.GHOST_GRANTS,
    }
    section = requested_section(request)
    if run.state == JobState.DONE:
        context |= (report_sections if run.type == AnalysisName.DELETE_READINESS else table_sections)(
            request, run, section
        )
        context["chart"] = None if section in SECTIONS else report_chart(run)
    if section in SECTIONS and run.state == JobState.DONE:
        template = f"reports/_{'table' if 'table' in context else section}.html"
        template = template if {section, "table"} & context.keys() else "reports/_unreadable.html"
        return render_page(request, template, context | {"section": section})
    return render_page(request, "reports/_run.html" if section == "run" else "reports/run.html", context)


@require_POST
@capability_required(Capability.RUN_ANALYSES, visible_to=[Capability.READ_REPORTS])
def cancel_run_view(request: HttpRequest, pk: int) -> HttpResponse:
    run = run_or_404(pk)
    if cancel_run(run=run, author=request_author(request)):
        messages.info(request, f"Run {run.pk} is being cancelled.")
    else:
        messages.info(request, f"Run {run.pk} has already finished. Nothing changed.")
    return see_other(reverse("analysis", args=[run.pk]))
