"""The form that switches the nightly run of an analysis on or off, and sets its time and options."""

import re
from datetime import time

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from analytics.analyses import ANALYSES, AnalysisError
from analytics.models import Schedule
from analytics.runs.schedules import change_schedule, schedule_by_name, switch_all_schedules
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.rendering import render_page, see_other, show_outcome
from entities.vocabulary import quantity
from grants.errors import GrantError
from grants.policies.catalogue import GENERATIONS
from grants.roles.capabilities import Capability

OPTIONS = ("generation", "to_generation", "namespace")
TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def schedule_row(schedule: Schedule) -> dict:
    return {
        "schedule": schedule,
        "title": ANALYSES[schedule.analysis].title,
        "at": f"{schedule.at:%H:%M}",
        "options": ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in schedule.options.items()),
    }


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.RUN_ANALYSES, visible_to=[Capability.READ_REPORTS])
def schedule_page(request: HttpRequest, analysis: str) -> HttpResponse:
    try:
        schedule = schedule_by_name(analysis)
    except AnalysisError:
        raise Http404("there is no such analysis") from None
    if request.method != "POST":
        form = {name: schedule.options.get(name, "") for name in OPTIONS}
        return _page(request, schedule, form | {"at": f"{schedule.at:%H:%M}", "reason": ""})
    form = {name: request.POST.get(name, "").strip() for name in (*OPTIONS, "at", "reason")}
    try:
        outcome = change_schedule(
            author=request_author(request, form["reason"]),
            analysis=analysis,
            is_on="off" not in request.POST,
            at=_parse_time(form["at"]),
            options={name: form[name] for name in OPTIONS},
        )
    except (AnalysisError, GrantError) as error:
        return _page(request, schedule, form, fault=str(error), status=400)
    show_outcome(request, outcome)
    return see_other(reverse("analyses"))


@require_POST
@capability_required(Capability.RUN_ANALYSES, visible_to=[Capability.READ_REPORTS])
def switch_all_schedules_view(request: HttpRequest) -> HttpResponse:
    is_on = request.POST.get("switch") == "on"
    outcomes = switch_all_schedules(author=request_author(request), is_on=is_on)
    word = "run every night now" if is_on else "are no longer scheduled"
    messages.add_message(
        request,
        messages.SUCCESS if outcomes else messages.INFO,
        f"{quantity(len(outcomes), 'analysis', 'analyses')} {word}." if outcomes else "Nothing changed.",
    )
    return see_other(reverse("analyses"))


def _parse_time(text: str) -> time:
    if not TIME_OF_DAY.fullmatch(text):
        raise AnalysisError("enter the time as hours and minutes in UTC, such as 02:30")
    return time.fromisoformat(text)


def _page(
    request: HttpRequest, schedule: Schedule, form: dict, *, fault: str = "", status: int = 200
) -> HttpResponse:
    definition = ANALYSES[schedule.analysis]
    return render_page(
        request,
        "reports/schedule.html",
        {
            "analysis": definition,
            "is_on": schedule.is_on,
            "form": form,
            "fault": fault,
            "generations": list(GENERATIONS),
            "action": reverse("analysis-schedule", args=[definition.name]),
            "options": definition.options,
        },
        status=status,
    )
