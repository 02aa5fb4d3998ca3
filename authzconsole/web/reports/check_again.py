"""How old the reports behind a page are, and the button that runs their analyses again."""

from collections.abc import Mapping

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from analytics.analyses import ANALYSES, AnalysisError, AnalysisName
from analytics.models import AnalysisRun
from analytics.runs.selectors import changes_since_each
from analytics.runs.services import request_run
from authzconsole.findings.refresh import GUARDRAIL_JOB, request_guardrail_check
from authzconsole.findings.sources import REPORTING, Situation, newest_reports
from authzconsole.web.forms import ConsoleForm, FormPage, OptionalChoiceField
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.rendering import referring_page, render_page, see_other
from entities.vocabulary import quantity
from grants.authority.transactions import administrator_transaction
from grants.models import UNFINISHED_STATES, Job
from grants.roles.capabilities import Capability

# the section with the age of the reports, which polls while analyses run
REPORT_AGE = "report-age"


def age_of_reports(reports: Mapping[str, AnalysisRun]) -> dict:
    """Return the oldest report behind the page, how many changes were made since, at most, and how many of the analyses are
    running.

    The check of guardrails in a large tenant counts as their analysis. reports: those of `newest_reports`.
    """
    oldest = min(reports.values(), key=lambda run: run.finished_at or run.requested_at, default=None)
    unfinished = Job.objects.filter(state__in=UNFINISHED_STATES, type__in=[*REPORTING, GUARDRAIL_JOB])
    types = set(unfinished.values_list("type", flat=True))
    return {
        "report": oldest,
        "changes": max(changes_since_each(reports.values()).values(), default=0),
        "running": len({AnalysisName.GUARDRAILS if name == GUARDRAIL_JOB else name for name in types}),
    }


def report_age_section(request: HttpRequest) -> HttpResponse:
    """Return the section alone; htmx loads the page again when no analysis is running any more."""
    age = age_of_reports(newest_reports())
    response = render_page(request, "reports/_report_age.html", age | {"can_start": False})
    if not age["running"]:
        # new reports change the whole page
        response["HX-Refresh"] = "true"
    return response


class CheckForm(ConsoleForm):
    """analysis: the only one to start; empty for all."""

    analysis = OptionalChoiceField(choices=[(name, name) for name in REPORTING])


class CheckAgain(FormPage):
    """Rerun the analyses behind findings and figures whose data changed since their reports. Return to the page."""

    http_method_names = ("post",)
    capabilities = (Capability.RUN_ANALYSES,)
    visible_to = (Capability.READ_REPORTS,)
    form_class = CheckForm
    template_name = "reports/trends.html"

    def perform(self, form: CheckForm) -> HttpResponse:
        only, situation = form.cleaned_data["analysis"], Situation.now()
        reports = {name: run for name, run in situation.reports.items() if only in ("", name)}
        changes = changes_since_each(reports.values())
        author = request_author(self.request)
        started: list[str] = []
        # locks the journal, so that two requests do not start an analysis twice
        with administrator_transaction(author, capability=Capability.RUN_ANALYSES):
            unfinished = AnalysisRun.objects.filter(state__in=UNFINISHED_STATES)
            waiting = set(unfinished.values_list("type", flat=True))
            for name, run in reports.items():
                if not changes[run.pk] or name in waiting:
                    continue
                try:
                    request_run(
                        analysis=name, options=run.options, requested_by=self.request.user, author=author
                    )
                    started.append(name)
                except AnalysisError as error:
                    messages.error(self.request, f"{ANALYSES[name].title} was not started: {error}.")
            if situation.is_large and AnalysisName.GUARDRAILS in started:
                # their findings are not from the report
                request_guardrail_check()
        if started:
            text = quantity(len(started), "analysis was started", "analyses were started")
            until = "it is" if len(started) == 1 else "they are"
            messages.success(self.request, f"{text}. Findings and figures change when {until} done.")
        elif waiting & reports.keys():
            messages.info(self.request, "The analyses are running already.")
        elif not any(changes.values()):
            messages.info(self.request, "Nothing was changed since the last analyses.")
        return see_other(referring_page(self.request) or reverse("findings"))
