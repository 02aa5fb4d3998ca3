"""The page on which the reader chooses the time zone of the pages.

It is stored in a cookie of the browser.
"""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone

from authzconsole.web.forms import ConsoleForm, FormPage
from authzconsole.web.shared.rendering import see_other
from authzconsole.web.shared.times import COOKIE, COOKIE_SECONDS, time_zone_names, time_zone_of


class TimeZoneForm(ConsoleForm):
    zone = forms.ChoiceField(
        label="Time zone",
        choices=lambda: [(name, name) for name in time_zone_names()],
        error_messages=dict.fromkeys(("required", "invalid_choice"), "Choose a time zone from the list."),
    )


class ChooseTimeZone(FormPage):
    form_class = TimeZoneForm
    template_name = "accounts/time_zone.html"

    def get_initial(self) -> dict:
        return {"zone": time_zone_of(self.request).key}

    def perform(self, form: TimeZoneForm) -> HttpResponse:
        name = form.cleaned_data["zone"]
        messages.success(self.request, f"Times are shown in the time zone {name}.")
        response = see_other(reverse("time-zone"))
        response.set_cookie(
            COOKIE,
            name,
            max_age=COOKIE_SECONDS,
            secure=self.request.is_secure(),
            httponly=True,
            samesite="Lax",
        )
        return response

    def get_context_data(self, **context) -> dict:
        return super().get_context_data(**context) | {"now": timezone.now()}
