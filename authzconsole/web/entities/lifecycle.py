"""Register, describe, delete and recreate entities. The page before each change shows its forecast."""

import hashlib

from django import forms
from django.db import transaction
from django.http import Http404, HttpResponse

from authzconsole.web.effects.forms import EffectPage
from authzconsole.web.forms import (
    AddressField,
    ConsoleForm,
    ForAdministrators,
    FormPage,
    FormRefused,
    NameInput,
    PrincipalField,
    TextField,
    optional,
    reason_field,
)
from authzconsole.web.shared.guard import administrable_address_or_404
from authzconsole.web.shared.links import address_url, entity_url
from authzconsole.web.shared.principal_input import with_default_type
from authzconsole.web.shared.rendering import see_other, show_outcome
from entities.address import Address, AddressError, address_of, address_or_none
from entities.models import Entity
from entities.selectors import entity_at, live_entities_inside
from entities.vocabulary import KINDS, child_kinds, quantity
from grants.active_generation import active_generation
from grants.change_set import Delete, Recreate, Register
from grants.changes import ChangeSet, Outcome, describe_entity
from grants.journal import lock_journal
from grants.lifecycle import LifecycleForecast, lifecycle_forecast, lifecycle_refusal
from grants.principals.administrator_loss import capped_admin_count

MAX_HOLDERS = 12
FORECAST_CHANGED = (
    "The forecast changed since you opened this page. Nothing was changed. Review the new forecast below."
)
DESCRIPTION_CHANGED = (
    "The description changed since you opened this page. Compare the two versions, then save."
)
TITLES = {"register": "Register", "delete": "Delete", "recreate": "Recreate"}


class LifecycleForm(ConsoleForm):
    """form_version: of the forecast that the form shows. confirmed_name: to delete a namespace with contents."""

    form_version = TextField()
    description = TextField(label=optional("Description"))
    creator = PrincipalField(label=optional("Creator"), placeholder="user:NAME")
    confirmed_name = TextField(required=True, widget=NameInput())
    reason = reason_field()

    def clean_creator(self) -> str:
        return with_default_type(self.cleaned_data["creator"])


class Lifecycle(EffectPage):
    """Show the forecast of registering, deleting or recreating an entity; make the change on POST."""

    form_class = LifecycleForm
    template_name = "entities/lifecycle.html"
    has_forecast = True

    def prepare(self) -> None:
        self.verb = self.kwargs["verb"]
        if self.verb not in TITLES:
            raise Http404("there is no such page")
        self.target = administrable_address_or_404(self.request, self.kwargs["address"])

    def change_set(self, form: ConsoleForm) -> ChangeSet:
        if self.verb == "delete":
            return ChangeSet.of(Delete(self.target))
        state, values = Register if self.verb == "register" else Recreate, form.cleaned_data
        return ChangeSet.of(state(self.target, values["creator"], values["description"]))

    def check(self, form: ConsoleForm) -> None:
        lock_journal()
        forecast, values = lifecycle_forecast(self.target, self.verb), form.cleaned_data
        # a refused change raises its own error below
        if not forecast.refusal and values["form_version"] not in ("", _forecast_version(forecast)):
            raise FormRefused(FORECAST_CHANGED, status=409)
        if self.required_name(entity_at(self.target)) not in ("", values["confirmed_name"]):
            raise FormRefused(
                f"nothing was deleted: to confirm, enter the name of the namespace, {self.target.name}",
                field="confirmed_name",
            )

    def done(self, form: ConsoleForm, outcome: Outcome) -> HttpResponse:
        show_outcome(self.request, outcome)
        return see_other(entity_url(self.target))

    def get_context_data(self, **context) -> dict:
        context, verb, target = super().get_context_data(**context), self.verb, self.target
        entity = entity_at(target)
        refusal = lifecycle_refusal(verb, target, entity)
        context |= {
            "button": f"{TITLES[verb]} {KINDS[target.kind].title}",
            "is_danger": verb == "delete",
            "back": entity_url(target),
            "effect": None if refusal else context["effect"],
            "verb": verb,
            "title": TITLES[verb],
            "target": target,
            "kind": KINDS[target.kind],
            "refusal": refusal,
            "has_creator": verb != "delete" and bool(active_generation().creator_receives),
            "required_name": self.required_name(entity),
            "forecast_template": "entities/_forecast.html",
        }
        is_loading = context["effect"] is not None and "is_loading" in context["effect"]
        # the counts of a large namespace take as long as an effect, so they are in the part with it
        return context if refusal or is_loading else context | self._forecast_context(entity)

    def _forecast_context(self, entity: Entity | None) -> dict:
        forecast = lifecycle_forecast(self.target, self.verb)
        return {
            "forecast": forecast,
            "kinds": [
                quantity(total, KINDS[kind].title, KINDS[kind].plural)
                for kind, total in forecast.entities.items()
            ],
            "applying_grants": forecast.applying[:MAX_HOLDERS],
            "more_holders": max(0, len(forecast.applying) - MAX_HOLDERS),
            # how many active users will hold ADMIN: 0, 1, or 2 for more
            "total_admins": 2 if self.verb == "delete" else capped_admin_count(entity) if entity else 0,
            "form_version": _forecast_version(forecast),
        }

    def required_name(self, entity: Entity | None) -> str:
        """Return the name that must be entered to confirm, to delete a namespace with contents; otherwise an empty text."""
        is_deleted = self.verb == "delete" and self.target.kind == "namespace" and entity is not None
        return self.target.name if is_deleted and live_entities_inside(entity).exists() else ""


def _forecast_version(forecast: LifecycleForecast) -> str:
    return form_version(
        forecast.generation.name,
        forecast.entities,
        forecast.planned_inside,
        forecast.grants_removed,
        forecast.grants_kept,
        forecast.applying,
        forecast.creator_receives,
    )


def form_version(*data: object) -> str:
    """Return a short hash of the data that a form displays, to detect concurrent edits. Equal data must have an equal
    `repr`.
    """
    return hashlib.sha256(repr(data).encode()).hexdigest()[:16]


class NewEntityForm(ConsoleForm):
    """The kind and name of a new entity. parent: the entity that contains it."""

    parent = AddressField(required=True, widget=forms.HiddenInput())
    kind = TextField(label="Kind", widget=forms.Select)
    name = TextField(
        label="Name",
        required=True,
        widget=NameInput(),
        help_text="The name without its containers. For a program: type, dot and name, such as workflow.daily.",
    )

    def address(self) -> Address:
        """Return the address inside the parent. Raise AddressError with the invalid part in the message."""
        parent, kind, name = (self.cleaned_data[field] for field in ("parent", "kind", "name"))
        kinds = [child.name for child in child_kinds(parent.kind)]
        if kind not in kinds:
            raise AddressError(
                f"{parent} cannot contain `{kind}`; it can contain {', '.join(kinds) or 'no entities'}"
            )
        return address_of(kind, name if parent.kind == "instance" else f"{parent.key}.{name}")


class NewEntity(ForAdministrators, FormPage):
    """Show the form for the kind and name of a new entity; on POST, continue to the forecast of registering it."""

    form_class = NewEntityForm
    template_name = "entities/new.html"

    def perform(self, form: NewEntityForm) -> HttpResponse:
        target = form.address()
        entity = entity_at(target)
        verb = "recreate" if entity is not None and entity.state == "deleted" else "register"
        return see_other(address_url("lifecycle", target, verb))

    def get_context_data(self, **context) -> dict:
        context = super().get_context_data(**context)
        form = context["form"]
        parent = address_or_none(form["parent"].value() or "")
        if parent is None or not (kinds := child_kinds(parent.kind)):
            raise Http404("there is no entity that could contain the new one")
        form.fields["kind"].widget.choices = [(child.name, child.title) for child in kinds]
        return context | {"parent": parent, "back": entity_url(parent)}


class DescriptionForm(ConsoleForm):
    """was: the version of the description that the form showed."""

    was = TextField()
    description = TextField(label="Description", widget=forms.Textarea)
    reason = reason_field()


class DescribeEntity(FormPage):
    form_class = DescriptionForm
    template_name = "entities/describe.html"

    def prepare(self) -> None:
        self.target = administrable_address_or_404(self.request, self.kwargs["address"])
        self.entity = entity_at(self.target)
        if self.entity is None:
            raise Http404("there is no such entity")

    def get_initial(self) -> dict:
        return {"description": self.entity.description}

    def perform(self, form: DescriptionForm) -> HttpResponse:
        values = form.cleaned_data
        with transaction.atomic():
            lock_journal()
            self.entity = entity_at(self.target)
            if values["was"] not in ("", form_version(self.entity.description)):
                self.extra_context = {"has_changed": True}
                raise FormRefused(DESCRIPTION_CHANGED, status=409)
            outcome = describe_entity(
                author=self.author(form),
                address=self.target,
                description=values["description"],
            )
        show_outcome(self.request, outcome)
        return see_other(entity_url(self.target))

    def get_context_data(self, **context) -> dict:
        return super().get_context_data(**context) | {
            "target": self.target,
            "form_version": form_version(self.entity.description),
            "action": address_url("lifecycle-describe", self.target),
            "back": entity_url(self.target),
            "current_description": self.entity.description,
        }
