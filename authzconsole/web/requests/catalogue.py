"""The catalogue of what can be requested, and the page on which an entity is published in it."""

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.urls import reverse

from authzconsole.lists.requests import Catalogue, shown_items
from authzconsole.web.forms import ConsoleForm, FormPage, ListForm, OptionalChoiceField, TextField, TextsField
from authzconsole.web.lists import ListPage
from authzconsole.web.requests.operations import requestable_operations
from authzconsole.web.shared.guard import entity_or_404, request_author
from authzconsole.web.shared.links import entity_url
from authzconsole.web.shared.rendering import see_other, show_outcome
from grants.models import PublishedItem
from grants.requests.catalogue import (
    DECIDERS,
    MAX_DESCRIPTION_CHARACTERS,
    can_publish,
    publish,
    published_item_at,
    withdraw,
)


class CatalogueForm(ListForm):
    list_type = Catalogue

    q = TextField(max_characters=100)


class CataloguePage(ListPage):
    """The published entities, for every account."""

    form_class = CatalogueForm
    template_name = "requests/catalogue.html"
    section = ("catalogue", "requests/_catalogue.html")
    page_url = "request-catalogue"
    file_url = ""

    def get_context_data(self) -> dict:
        context = super().get_context_data()
        return context | {"items": item_rows(context["page"].rows)}


def item_rows(items: list[PublishedItem]) -> list[dict]:
    """Return what the catalogue shows of entries, and the URL that requests each. Runs at most five queries."""
    return [
        item
        | {
            "deciders": [DECIDERS[decider] for decider in item["decided_by"]],
            "request_url": reverse(
                "request-new", query={"entity": item["address"], "operation": item["operations"]}
            ),
        }
        for item in shown_items(items)
    ]


class PublicationForm(ConsoleForm):
    """verb: `publish` or `withdraw`, which ignores the other fields."""

    id_pattern = "publication-%s"

    verb = OptionalChoiceField(default="publish", choices=[("publish", "publish"), ("withdraw", "withdraw")])
    operation = TextsField(label="What can be requested", widget=forms.SelectMultiple(attrs={"size": 10}))
    description = TextField(
        label="Description",
        max_characters=MAX_DESCRIPTION_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Say what it contains and who needs it. The readers may not know it.",
    )

    def __init__(self, *args, kind: str, **kwargs):
        super().__init__(*args, **kwargs)
        self.fields["operation"].choices = requestable_operations(kind)


class PublishPage(FormPage):
    """Publish an entity that the account sees in the catalogue, or withdraw it, if the account decides about requests for it."""

    form_class = PublicationForm
    template_name = "requests/publish.html"

    def prepare(self) -> None:
        self.entity = entity_or_404(self.request, self.kwargs["address"])
        if not can_publish(self.request.user, self.entity.address):
            raise PermissionDenied("Only accounts that decide about requests for this entity can publish it.")
        self.item = published_item_at(self.entity.address)

    def get_form_kwargs(self) -> dict:
        return super().get_form_kwargs() | {"kind": self.entity.kind}

    def get_initial(self) -> dict:
        if self.item is None:
            return {"description": self.entity.description[:MAX_DESCRIPTION_CHARACTERS]}
        return {"operation": self.item.operations, "description": self.item.description}

    def perform(self, form: PublicationForm) -> HttpResponse:
        values, author = form.cleaned_data, request_author(self.request)
        if values["verb"] == "withdraw":
            outcome = withdraw(author=author, entity=self.entity)
        else:
            outcome = publish(
                author=author,
                entity=self.entity,
                operations=values["operation"],
                description=values["description"],
            )
        show_outcome(self.request, outcome)
        return see_other(entity_url(self.entity))

    def get_context_data(self, **context) -> dict:
        return super().get_context_data(**context) | {
            "target": self.entity,
            "item": self.item,
            "action": self.request.path,
            "back": entity_url(self.entity),
        }
