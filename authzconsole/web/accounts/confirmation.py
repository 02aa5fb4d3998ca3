"""The base of the forms that confirm a change to an account or a token."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse

from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.effects.forms import EffectPage
from authzconsole.web.forms import ConsoleForm, reason_field
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.rendering import requested_section, see_other, show_outcome
from grants.changes import Outcome
from grants.journal import Author
from grants.principals.administrator_loss import AdministratorLoss
from grants.roles.capabilities import Capability


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a form says before its change is made.

    title, button: texts of the page. effects: one sentence for each effect.
    stranding: None if the change does not remove an administrator of an entity.
    """

    title: str
    button: str
    effects: list[str]
    is_destructive: bool = False
    stranding: AdministratorLoss | None = None


class ReasonForm(ConsoleForm):
    """A change without further values. The ids of its fields differ from those of the page below the dialog."""

    id_pattern = "confirm-%s"

    reason = reason_field()


class ConfirmationPage(EffectPage):
    """Show the forecast of a change, as a page or in the dialog, and make the change on POST.

    back, back_title: the page before, in the path and after the change.
    """

    capabilities = (Capability.MANAGE_ACCOUNTS,)
    visible_to = (Capability.READ_ACCOUNTS,)
    decorators = (recent_authentication_required,)
    form_class = ReasonForm
    has_forecast = True

    @property
    def back(self) -> str:
        raise NotImplementedError

    @property
    def back_title(self) -> str:
        raise NotImplementedError

    @property
    def shows_effect(self) -> bool:
        return False

    def forecast(self, values: Mapping[str, Any]) -> Forecast:
        """values: of the form, as sent in the body or in the URL."""
        raise NotImplementedError

    def author(self, form: ConsoleForm) -> Author:
        return request_author(self.request, form.cleaned_data["reason"])

    def done(self, form: ConsoleForm, outcome: Outcome) -> HttpResponse:
        show_outcome(self.request, outcome)
        return see_other(self.back)

    def get_template_names(self) -> list[str]:
        is_dialog = requested_section(self.request) == "dialog"
        return ["accounts/_change_form.html" if is_dialog else "accounts/change.html"]

    def get_context_data(self, **context) -> dict:
        values = self.form_class.sent(self.request).cleaned_data
        return super().get_context_data(**context) | {
            "forecast": self.forecast(values),
            "back": self.back,
            "back_title": self.back_title,
        }
