"""The page of the limits of delegation."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse

from authzconsole.common.messages import as_sentence
from authzconsole.web.forms import (
    ConsoleForm,
    FormPage,
    NumberField,
    OptionalChoiceField,
    Radios,
    TextsField,
    reason_field,
)
from authzconsole.web.shared.rendering import see_other
from entities.vocabulary import KINDS, Privilege, quantity
from grants.authority.limits import DelegationLimits, set_delegation_limits
from grants.roles.capabilities import Capability


class LimitsForm(ConsoleForm):
    id_pattern = "limits-%s"
    error_fields = {"privileges": "privilege", "kinds": "kind"}

    privilege = TextsField(
        label="Privileges that delegates can grant",
        help_text="Select none to let delegates only see holders.",
    )
    kinds = OptionalChoiceField(default="all", label="Kinds of entities", widget=Radios)
    kind = TextsField()
    max_days = NumberField(label="Longest period of a grant, in days", max_characters=6)
    reason = reason_field()

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        upper = DelegationLimits.from_settings()
        self.fields["privilege"].choices = [(name, name) for name in Privilege if name in upper.privileges]
        self.fields["kinds"].choices = [
            ("all", "All these kinds" if upper.kinds else "All kinds"),
            ("some", "Only the selected kinds"),
        ]
        self.fields["kind"].choices = [
            (name, kind.plural) for name, kind in KINDS.items() if upper.kinds is None or name in upper.kinds
        ]
        days, limit = self.fields["max_days"], quantity(upper.max_days or 0, "day", "days")
        days.widget.attrs["placeholder"] = upper.max_days or "no limit"
        days.help_text = (
            f"Leave empty for {f'{limit}, the limit of the settings' if upper.max_days else 'no limit'}."
        )


class DelegationLimitsPage(FormPage):
    """Show the limits, and change them."""

    capabilities = (Capability.READ_ALL,)
    change_capabilities = (Capability.MANAGE_SETTINGS,)
    form_class = LimitsForm
    template_name = "requests/delegation.html"

    def get_initial(self) -> dict:
        limits = DelegationLimits.stored_or_settings()
        return {
            "privilege": list(limits.privileges),
            "kinds": "all" if limits.kinds is None else "some",
            "kind": list(limits.kinds or ()),
            "max_days": limits.max_days or "",
        }

    def get_form(self) -> LimitsForm:
        form = super().get_form()
        if not self.request.user.can(Capability.MANAGE_SETTINGS):
            for field in form.fields.values():
                field.disabled = True
        return form

    def perform(self, form: LimitsForm) -> HttpResponse:
        values = form.cleaned_data
        outcome = set_delegation_limits(
            author=self.author(form),
            # unknown names are no choices of the form
            privileges=set(values["privilege"]) & set(Privilege),
            kinds=None if values["kinds"] == "all" else set(values["kind"]) & set(KINDS),
            max_days=values["max_days"],
        )
        messages.success(self.request, as_sentence(outcome.sentence))
        return see_other(reverse("delegation-limits"))

    def get_context_data(self, **context) -> dict:
        can_change = self.request.user.can(Capability.MANAGE_SETTINGS)
        return super().get_context_data(**context) | {"is_on": settings.DELEGATION, "can_change": can_change}
