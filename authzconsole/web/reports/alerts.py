"""The pages of alerts about figures: the form for a new one, and deleting one. The page of trends lists them."""

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from analytics.analyses import ANALYSES
from analytics.runs.alerts import MAX_RECIPIENTS, add_alert, delete_alert
from authzconsole.web.forms import (
    CODE_INPUT,
    ConsoleForm,
    FormPage,
    StrictChoiceField,
    TextField,
    reason_field,
)
from authzconsole.web.reports.charts.trends import figure_label
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.rendering import see_other
from grants.roles.capabilities import Capability

# between the name of an analysis and that of a figure, in the value of the field
SEPARATOR = "/"


class AlertForm(ConsoleForm):
    id_pattern = "alert-%s"
    figure = StrictChoiceField(
        label="Figure",
        choices=[
            (f"{name}{SEPARATOR}{figure}", f"{analysis.title}: {figure_label(figure)}")
            for name, analysis in ANALYSES.items()
            for figure in analysis.figures
        ],
    )
    when = StrictChoiceField(
        label="Fires when it is", choices=[("above", "above"), ("below", "below")], default="above"
    )
    value = TextField(
        label="Value",
        required=True,
        max_characters=16,
        widget=forms.TextInput(attrs={"inputmode": "numeric"}),
    )
    recipients = TextField(
        label="E-mail to",
        help_text=f"One address a line, at most {MAX_RECIPIENTS}. Webhooks with the action alert-fire receive it too.",
        widget=forms.Textarea(attrs={"rows": 3, **CODE_INPUT}),
    )
    reason = reason_field()

    def clean_value(self) -> int:
        text = self.cleaned_data["value"].replace(",", "")
        if not (text.isascii() and text.isdigit()):
            raise forms.ValidationError("Enter a number without a sign or a fraction, such as 5.")
        return int(text)


class NewAlert(FormPage):
    capabilities = (Capability.MANAGE_SETTINGS,)
    visible_to = (Capability.READ_REPORTS,)
    form_class = AlertForm
    template_name = "reports/alert_new.html"

    def perform(self, form: AlertForm) -> HttpResponse:
        values = form.cleaned_data
        analysis, _, figure = values["figure"].partition(SEPARATOR)
        add_alert(
            author=self.author(form),
            analysis=analysis,
            figure=figure,
            is_above=values["when"] == "above",
            value=values["value"],
            recipients=values["recipients"].split(),
        )
        messages.success(
            self.request, "The alert is added. It fires after the next run that crosses the value."
        )
        return see_other(reverse("trends", fragment="alerts"))


@require_POST
@capability_required(Capability.MANAGE_SETTINGS, visible_to=[Capability.READ_REPORTS])
def delete_alert_view(request: HttpRequest, pk: int) -> HttpResponse:
    delete_alert(author=request_author(request), number=pk)
    messages.success(request, f"Alert {pk} is deleted.")
    return see_other(reverse("trends", fragment="alerts"))
