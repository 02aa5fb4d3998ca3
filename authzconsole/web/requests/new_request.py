"""The form that requests access. It never reveals whether an address or a colleague exists."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone

from authzconsole.web.forms import (
    AddressField,
    ConsoleForm,
    FormPage,
    LastDayField,
    NameInput,
    PrincipalField,
    TextField,
    TextsField,
    optional,
)
from authzconsole.web.requests.catalogue import item_rows
from authzconsole.web.requests.operations import requestable_operations
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.rendering import see_other
from authzconsole.web.shared.times import zone_name
from entities.address import address_or_none
from grants.requests.catalogue import published_item_at, published_items, usual_times
from grants.requests.create import RequestDraft, WantedAccess, create_request


class NewRequestForm(ConsoleForm):
    """What is requested: operations on an address, or the access of a colleague."""

    id_pattern = "request-%s"

    entity = AddressField(
        label="Address",
        placeholder="dataset:sales.orders",
        required=True,
        missing="The address is missing: enter one such as dataset:sales.orders.",
    )
    operation = TextsField(label="What do you need to do?", required=True, widget=forms.SelectMultiple)
    colleague = PrincipalField(
        only="user",
        label="Access like this colleague",
        help_text="Approvers see what this colleague has, and choose what you get.",
        required=True,
        max_characters=155,
        widget=NameInput(),
    )
    reason = TextField(
        label="Reason", required=True, max_characters=2000, widget=forms.Textarea(attrs={"rows": 3})
    )
    until = LastDayField(
        help_text="The access ends at the end of this day. Leave it empty for access without an end."
    )

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.is_for_colleague = bool(self["colleague"].value()) and not self["entity"].value()
        self.fields["entity"].required = not self["colleague"].value()
        self.fields["until"].label = optional(f"Last day ({zone_name()})")
        self.fields["until"].widget.attrs["min"] = f"{timezone.localtime():%Y-%m-%d}"
        chosen, field = self["operation"].value() or (), self.fields["operation"]
        field.widget.allow_multiple_selected = len(chosen) > 1
        address = address_or_none(self["entity"].value() or "")
        field.choices = requestable_operations(address.kind if address else "")
        if not any(chosen):
            field.choices = [("", "Choose an operation"), *field.choices]

    def clean(self) -> dict:
        if not self.cleaned_data["colleague"] and not any(self.cleaned_data["operation"]):
            self.add_error("operation", "Choose what you need to do with it.")
        return self.cleaned_data

    def draft(self) -> RequestDraft:
        values = self.cleaned_data
        if values["colleague"]:
            return RequestDraft(
                values["reason"], colleague=values["colleague"], requested_until=values["until"]
            )
        wanted = [WantedAccess(values["entity"], operation) for operation in values["operation"] if operation]
        return RequestDraft(values["reason"], wanted, requested_until=values["until"])


class NewRequest(FormPage):
    """Show the form with the values of the URL, or create the request and open its page."""

    form_class = NewRequestForm
    template_name = "requests/new.html"

    def get_context_data(self, **context) -> dict:
        """Say who decides and how long it takes about a published entity; otherwise only how long all requests take."""
        context = super().get_context_data(**context)
        address = address_or_none(context["form"]["entity"].value() or "")
        item = published_item_at(address) if address else None
        return context | {
            "item": item_rows([item])[0] if item else None,
            "usual_seconds": None if item else usual_times().overall,
            "has_catalogue": address is None and published_items().exists(),
        }

    def perform(self, form: NewRequestForm) -> HttpResponse:
        created = create_request(author=request_author(self.request), draft=form.draft())
        messages.success(
            self.request, "The request waits for its approvers. This page shows what they decide."
        )
        return see_other(reverse("request", args=[created.pk]))

    def refusal_response(self, form: NewRequestForm, error: Exception) -> HttpResponse:
        self.extra_context = {"pending_request": getattr(error, "request_id", None)}
        return super().refusal_response(form, error)
