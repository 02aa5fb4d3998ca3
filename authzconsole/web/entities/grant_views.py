"""Grant and revoke on one entity. The form is a separate page, a dialog, or a section of the entity page."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html

from authzconsole.common.messages import as_sentence
from authzconsole.web.effects.forms import EffectPage
from authzconsole.web.forms import (
    AddressField,
    ConsoleForm,
    ForAdministrators,
    FormPage,
    NameInput,
    PeriodForm,
    PrincipalField,
    TextField,
    privileges_field,
    reason_field,
)
from authzconsole.web.shared.guard import entity_or_404, grantable_address_or_404
from authzconsole.web.shared.links import address_url, entity_tab_url
from authzconsole.web.shared.principal_input import principal_from_input
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from authzconsole.web.shared.times import fields_of_period, period_words
from entities.address import Address, parse_grantable
from entities.selectors import entity_at
from entities.vocabulary import Privilege, VocabularyError, privilege_by_name
from grants.administrators import Strandings
from grants.authority.four_eyes import check_direct_change
from grants.authority.rights import grantable_privileges
from grants.change_set import Grant, Revoke
from grants.changes import ChangeSet, Outcome, Preview
from grants.errors import ChangeRefused, PrincipalError
from grants.grant_attributes import GrantAttributes
from grants.models import PRINCIPAL_TYPES, Plan, User, permission_ids
from grants.plans.application import large_change_count, request_application
from grants.plans.sources.changes import change_set_plan
from grants.policies.principals import type_and_name
from grants.principal_names import format_principal, principals_by_name
from grants.principals.administrator_loss import loss_if_revoked
from grants.validity import Validity

# id of the form on a separate page. It is sent without htmx, because that page has no sections to refresh.
PAGE_FORM_ID = "change-form-standalone"


class RevocationForm(PeriodForm):
    """Privileges of one principal on an entity. The fields of GrantAttributes have its names."""

    principal = PrincipalField(label="Principal", required=True)
    privilege = privileges_field()
    reason = reason_field(placeholder="Why it is no longer needed", has_focus=True)

    def __init__(self, *args, account: User, form_id: str = "grant-form", **kwargs):
        super().__init__(*args, auto_id=f"{form_id}-%s", **kwargs)
        self.form_id = form_id
        choices = [(str(privilege), str(privilege)) for privilege in grantable_privileges(account)]
        self.fields["privilege"].choices = choices
        if not account.can_administer:
            # delegates learn nothing about other principals
            self.fields["principal"].widget = NameInput(self.fields["principal"].widget.attrs)

    def has_period(self) -> bool:
        return False

    def clean_principal(self) -> str:
        if not self.cleaned_data["principal"]:
            raise ValidationError("No principal is named: write user:NAME or group:NAME.")
        try:
            return format_principal(self.cleaned_data["principal"])
        except PrincipalError as error:
            raise ValidationError(as_sentence(error)) from None

    def clean_privilege(self) -> list[Privilege]:
        names = self.cleaned_data["privilege"]
        if not names:
            raise ValidationError(f"No privilege is selected: select at least one of {', '.join(Privilege)}.")
        try:
            return list(map(privilege_by_name, names))
        except VocabularyError as error:
            raise ValidationError(as_sentence(error)) from None

    def refuse(self, error: Exception) -> None:
        if isinstance(error, ChangeRefused):
            # an unknown principal causes the same error for each privilege
            faults = dict.fromkeys(item.message for item in error.errors)
            self.add_error("principal", as_sentence("; ".join(faults)))
        else:
            super().refuse(error)


class GrantForm(RevocationForm):
    reason = reason_field(placeholder="Why it is needed")

    def has_period(self) -> bool:
        return True

    def stored_period(self, target: Address) -> Validity | None:
        """Return the period of the grant in the form if the grant exists and has limits; otherwise None.

        Runs at most one query.
        """
        principal, name = type_and_name(principal_from_input(self["principal"].value() or ""))
        privileges = self["privilege"].value() or ()
        if principal not in PRINCIPAL_TYPES or len(privileges) != 1 or privileges[0] not in list(Privilege):
            return None
        grants = (
            PRINCIPAL_TYPES[principal]
            .grants_to(name)
            .filter(
                content_object__kind=target.kind,
                content_object__key=target.key,
                permission_id=permission_ids()[Privilege(privileges[0])],
            )
        )
        grant = grants.first()
        return grant.validity if grant and grant.validity.is_limited else None


class GrantTargetForm(ConsoleForm):
    """What is granted. principal: who shall get it."""

    id_pattern = "grant-target-%s"

    entity = AddressField(
        label="Address or pattern",
        required=True,
        parse=parse_grantable,
        help_text="A pattern such as dataset:sales.* stands for every address that it matches, now and later.",
    )
    principal = TextField(widget=forms.HiddenInput())


class ChooseGrantTarget(ForAdministrators, FormPage):
    """Ask what is granted; on POST, continue to the form of the grant."""

    form_class = GrantTargetForm
    template_name = "entities/grants/choose.html"

    def perform(self, form: ConsoleForm) -> HttpResponse:
        principal = form.cleaned_data["principal"]
        query = f"?{urlencode({'principal': principal})}" if principal else ""
        return see_other(address_url("grant", form.cleaned_data["entity"]) + query)

    def get_context_data(self, **context) -> dict:
        context = super().get_context_data(**context)
        principal = context["form"]["principal"].value() or ""
        return context | {"principal": principal if type_and_name(principal)[0] in PRINCIPAL_TYPES else ""}


class GrantPage(EffectPage):
    """Grant privileges on an entity."""

    verb: ClassVar[str] = "grant"
    form_class = GrantForm
    # by which a job makes the change
    plan: Plan | None = None

    def prepare(self) -> None:
        self.target = grantable_address_or_404(self.request, self.kwargs["address"])
        self.section = requested_section(self.request).removesuffix("-effect")
        self.form_id = {"": PAGE_FORM_ID, "dialog": f"{self.verb}-form-dialog"}.get(
            self.section, self.section
        )
        self.effect_id = f"{self.form_id}-effect"

    @property
    def shows_effect(self) -> bool:
        """Delegates see no effect."""
        return self.request.user.can_administer

    def get_template_names(self) -> list[str]:
        if self.is_part:
            return super().get_template_names()
        templates = {"": f"{self.verb}.html", "dialog": f"_{self.verb}_dialog.html"}
        return [f"entities/grants/{templates.get(self.section, f'_{self.verb}_form.html')}"]

    def get_form_kwargs(self) -> dict:
        return super().get_form_kwargs() | {"account": self.request.user, "form_id": self.form_id}

    def change_set(self, form: ConsoleForm) -> ChangeSet:
        values = form.cleaned_data
        return ChangeSet.of(
            *(
                Grant(values["principal"], self.target, privilege, values["validity"])
                for privilege in values["privilege"]
            )
        )

    def button_text(self, privileges: Sequence[str]) -> str:
        return "Grant"

    def attributes(self, form: ConsoleForm) -> GrantAttributes:
        return GrantAttributes(**{name: form.cleaned_data[name] for name in GrantAttributes._fields})

    def effect_context(self, form: ConsoleForm, changes: ChangeSet | Preview) -> dict:
        change_set = changes.change_set if isinstance(changes, Preview) else changes
        return super().effect_context(form, changes) | {"large_count": large_change_count(change_set)}

    def make(self, form: ConsoleForm) -> Outcome:
        """Make the change; one on a pattern that matches too many addresses by a plan that a job applies."""
        changes, shown = self.change_set(form), self.shown(form)
        if not (self.shows_effect and large_change_count(changes)):
            return super().make(form)
        author = self.author(form)
        check_direct_change(author, changes.changes)
        title = f"{self.verb.capitalize()} {', '.join(map(str, changes))}"
        self.plan = change_set_plan.create(author, changes, title)
        shown = replace(shown, identity=shown.identity or changes.identity)
        request_application(author=author, plan_id=self.plan.pk, shown=shown)
        return Outcome(False, "", self.plan.base_revision)

    def done(self, form: ConsoleForm, outcome: Outcome) -> HttpResponse:
        """Redirect to the entity; for htmx, send the messages and an event that reloads the sections with grants.

        If a job makes the change, redirect to the plan.
        """
        if self.plan is not None:
            url = reverse("plan", args=[self.plan.pk])
            if self.request.htmx:
                return HttpResponse(status=204, headers={"HX-Redirect": url})
            return see_other(url)
        for sentence, level, undo in _outcome_messages(outcome):
            text = format_html(
                '{} <a href="{}" hx-get="{}" hx-target="#dialog">Undo</a>', sentence, undo, undo
            )
            messages.add_message(self.request, level, text if undo and self.shows_effect else sentence)
        if not self.request.htmx:
            return see_other(_back_url(self.request, self.target))
        response = render_page(self.request, "shared/feedback/notices.html", {})
        response["HX-Reswap"] = "none"
        response["HX-Trigger"] = json.dumps({"grants-changed": {}, "dialog-done": {}})
        return response

    def get_context_data(self, **context) -> dict:
        form, stored = context["form"], None
        if isinstance(form, GrantForm):
            stored = form.stored_period(self.target)
            if stored is not None and self.request.method != "POST" and form.is_period_empty:
                form.initial |= fields_of_period(stored)
        privileges = form["privilege"].value() or ()
        return super().get_context_data(**context) | {
            "target": self.target,
            "button": self.button_text(privileges),
            "button_id": f"{self.form_id}-send",
            # the form in the section of the entity has no page before it
            "back": "" if self.form_id == "grant-form" else _back_url(self.request, self.target),
            "is_delegate": not self.request.user.can_administer,
            "privileges": privileges,
            "principal": principal_from_input(form["principal"].value() or ""),
            "page_form_id": PAGE_FORM_ID,
            "changed_period": stored,
        }


class RevokePage(GrantPage):
    """Revoke privileges on an entity."""

    verb = "revoke"
    form_class = RevocationForm

    def change_set(self, form: ConsoleForm) -> ChangeSet:
        values = form.cleaned_data
        return ChangeSet.of(
            *(Revoke(values["principal"], self.target, privilege) for privilege in values["privilege"])
        )

    def button_text(self, privileges: Sequence[str]) -> str:
        return f"Revoke {', '.join(privileges)}"

    def get_context_data(self, **context) -> dict:
        return super().get_context_data(**context) | {"is_danger": True}

    def stranding(self, form: ConsoleForm) -> Strandings | None:
        values, entity = form.cleaned_data, entity_at(self.target)
        holder = principals_by_name([values["principal"]]).get(values["principal"])
        is_loss = Privilege.ADMIN in values["privilege"] and entity is not None and holder is not None
        return loss_if_revoked(holder, entity) if is_loss else None


def _outcome_messages(outcome: Outcome) -> Iterator[tuple[str, int, str]]:
    """Yield the sentence, the level, and the URL of the form that undoes the change, or an empty text."""
    if outcome.granted:
        first = outcome.granted[0]
        yield (
            f"Granted {_privilege_list(outcome.granted)} on {first.address} to {first.principal}{_period_suffix(first)}.",
            messages.SUCCESS,
            _undo_url("revoke", outcome.granted),
        )
    if outcome.changed_periods:
        first = outcome.changed_periods[0]
        yield (
            f"{_privilege_list(outcome.changed_periods)} on {first.address} for {first.principal} is now valid "
            f"{period_words(first.validity)}.",
            messages.SUCCESS,
            "",
        )
    if outcome.revoked:
        first = outcome.revoked[0]
        yield (
            f"Revoked {_privilege_list(outcome.revoked)} on {first.address} from {first.principal}.",
            messages.SUCCESS,
            _undo_url("grant", outcome.revoked),
        )
    if outcome.planned:
        yield (
            f"{', '.join(map(str, outcome.planned))} was not registered; it is now planned.",
            messages.INFO,
            "",
        )
    for sentence in outcome.unchanged:
        yield f"{sentence}.", messages.INFO, ""


def _undo_url(verb: str, items: Sequence[Grant | Revoke]) -> str:
    """Return the URL of the form that makes the opposite change, with its effect."""
    query = {
        "principal": items[0].principal,
        "privilege": [item.privilege for item in items],
        "reason": f"undo of a {'grant' if verb == 'revoke' else 'revocation'} by mistake",
    }
    return f"{address_url(verb, items[0].address)}?{urlencode(query, doseq=True)}"


def _period_suffix(item: Grant) -> str:
    return f" {period_words(item.validity)}" if item.validity.is_limited else ""


def _privilege_list(items) -> str:
    return ", ".join(item.privilege for item in items)


def _back_url(request: HttpRequest, target: Address) -> str:
    """Return the page of the entity, or the form if the account cannot see the entity."""
    if not request.user.can_see_all:
        try:
            entity_or_404(request, str(target))
        except Http404:
            return address_url("grant", target)
    return entity_tab_url(target, "access")
