"""The form that switches the nightly run of an analysis on or off, and sets its time and options."""

import re
from datetime import time

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpResponse
from django.urls import reverse

from analytics.analyses import ANALYSES, AnalysisError
from analytics.models import Schedule
from analytics.runs.schedules import change_schedule, schedule_by_name, switch_all_schedules
from authzconsole.web.forms import ConsoleForm, FormPage, TextField, reason_field
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.rendering import see_other, show_outcome
from entities.vocabulary import quantity
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


class ScheduleForm(ConsoleForm):
    """When an analysis runs, and with which options. off: switch it off."""

    at = TextField(label="Time, in UTC", required=True, widget=forms.TextInput(attrs={"type": "time"}))
    generation = TextField()
    to_generation = TextField()
    namespace = TextField()
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
            author=request_author(self.request, values["reason"]),
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
