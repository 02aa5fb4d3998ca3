"""The form that requests access. It never reveals whether an address or a colleague exists."""

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone

from authzconsole.common.messages import as_sentence
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
from authzconsole.web.requests.operations import (
    operation_of_level,
    requestable_levels,
    requestable_operations,
)
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.rendering import see_other
from authzconsole.web.shared.times import zone_name
from entities.address import Address, AddressError, address_or_none, parse_address
from entities.vocabulary import ANY, KINDS
from grants.policies.levels import LEVELS, Level
from grants.requests.catalogue import published_item_at, published_items, usual_times
from grants.requests.create import MAX_PARTS, RequestDraft, WantedAccess, create_request


class NewRequestForm(ConsoleForm):
    """What is requested: access levels or operations on addresses, or the access of a colleague."""

    id_pattern = "request-%s"

    entity = AddressField(
        label="Address",
        placeholder="dataset:sales.orders",
        required=True,
        missing="The address is missing: enter one such as dataset:sales.orders.",
    )
    others = TextField(
        label=optional("More addresses"),
        max_characters=MAX_PARTS * 600,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="One address in each line. Approvers decide about each address by itself.",
    )
    level = TextsField(label="What do you need to do?")
    operation = TextsField(label="Single operation", widget=forms.SelectMultiple)
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
        kind = address.kind if address and address.kind in KINDS else ""
        self.fields["level"].choices = requestable_levels(kind)
        field.choices = requestable_operations(
            kind, with_privileges=not kind or any(name in ANY for name in chosen)
        )
        if not any(chosen):
            field.choices = [("", "Choose an operation"), *field.choices]

    def clean_others(self) -> list[Address]:
        try:
            return [parse_address(line) for line in self.cleaned_data["others"].split()]
        except AddressError as error:
            raise ValidationError(as_sentence(error)) from None

    def clean_level(self) -> list[Level]:
        return [Level(name) for name in self.cleaned_data["level"] if name in LEVELS]

    def clean(self) -> dict:
        values = self.cleaned_data
        if values["colleague"] or self.errors:
            return values
        if not any(values["operation"]) and not values["level"]:
            raise ValidationError({"level": "Choose what you need to do with it."})
        values["wanted"] = [
            WantedAccess(address, operation)
            for address in dict.fromkeys([values["entity"], *values["others"]])
            for operation in dict.fromkeys(
                [
                    *(operation_of_level(address.kind, level) for level in values["level"]),
                    *values["operation"],
                ]
            )
            if operation
        ]
        if not values["wanted"]:
            raise ValidationError(
                {"level": "Nothing at this address can be done at this level: choose another one."}
            )
        return values

    def draft(self) -> RequestDraft:
        values = self.cleaned_data
        if values["colleague"]:
            return RequestDraft(
                values["reason"], colleague=values["colleague"], requested_until=values["until"]
            )
        return RequestDraft(values["reason"], values["wanted"], requested_until=values["until"])


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
