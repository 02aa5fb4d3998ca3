"""The page that gives a user the access of a colleague, or makes two users alike, item by item, with one
plan.
"""

from collections.abc import Iterable, Mapping
from itertools import islice

from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse

from authzconsole.web.forms import (
    ConsoleForm,
    FlagField,
    ForAdministrators,
    FormPage,
    PrincipalField,
    TextsField,
)
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.links import principal_link
from authzconsole.web.shared.rendering import see_other
from entities.errors import Refusal
from entities.text import storage_fault
from grants.change_set import Join, Leave
from grants.models import PlanVerb, User
from grants.plans.create import MAX_PLAN_ITEMS
from grants.plans.sources.like import (
    AccessDifference,
    DifferenceSelection,
    difference_key,
    differences,
    like_plan,
)
from grants.principals.principal_lists import MAX_COUNTED, groups_with_counts

# items with a checkbox of their own; one checkbox stands for all others
MAX_ITEMS = 500
PARTS = {
    PlanVerb.JOIN: "Groups to join",
    PlanVerb.GRANT: "Direct grants to add",
    PlanVerb.LEAVE: "Groups to leave",
    PlanVerb.REVOKE: "Direct grants to revoke",
}


class LikeForm(ConsoleForm):
    """Two users, and the chosen items in which they differ. remove: also those that only the target has. rest: all
    items without a checkbox of their own.
    """

    source = PrincipalField(only="user")
    target = PrincipalField(only="user")
    remove = FlagField()
    rest = FlagField()
    item = TextsField()

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.users: dict[str, User] = {}

    def clean(self) -> dict:
        for name in ("source", "target"):
            text = self.cleaned_data[name]
            if user := None if storage_fault(text) else User.objects.filter(username=text).first():
                self.users[name] = user
            elif text:
                self.add_error(None, f"No user named {text}.")
        return self.cleaned_data


class LikeColleague(ForAdministrators, FormPage):
    """Show in which items the user `target` differs from the user `source`, and create a plan of the chosen
    ones.

    URL parameters: source, target, remove (`yes`: also remove what only the target has).
    """

    form_class = LikeForm
    template_name = "people/changes/like.html"

    def get(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        form = LikeForm(request.GET)
        context = {}
        if form.is_valid() and len(form.users) == 2:
            rows = self._rows(form)
            context = _choices(form.users, rows, _default_keys(rows, form.cleaned_data["remove"]))
        return self.render_to_response(self.get_context_data(form=form, **context))

    def perform(self, form: LikeForm) -> HttpResponse:
        if len(form.users) < 2:
            return self.render_to_response(self.get_context_data(form=form))
        self.rows, values = self._rows(form), form.cleaned_data
        rest = map(difference_key, self.rows[MAX_ITEMS:]) if values["rest"] else ()
        self.chosen = {*values["item"], *rest}
        keys = None if self.chosen.issuperset(map(difference_key, self.rows)) else frozenset(self.chosen)
        plan = like_plan.create(
            request_author(self.request),
            source=form.users["source"].username,
            target=form.users["target"].username,
            remove=values["remove"],
            items=keys,
        )
        return see_other(plan_url(plan))

    def form_refused(self, form: LikeForm, error: Refusal) -> HttpResponse:
        choices = _choices(form.users, self.rows, self.chosen)
        return self.render_to_response(self.get_context_data(form=form, **choices), status=400)

    def _rows(self, form: LikeForm) -> list[AccessDifference]:
        selection = DifferenceSelection(removes=form.cleaned_data["remove"])
        found = islice(differences(form.users["source"], form.users["target"]), MAX_PLAN_ITEMS + 1)
        return [row for row in found if selection.has(row)]

    def get_context_data(self, **context) -> dict:
        values = context["form"].cleaned_data
        return super().get_context_data(**context) | {
            "names": {name: values[name] for name in ("source", "target")},
            "remove": values["remove"],
            "max_items": MAX_ITEMS,
            "max_counted": MAX_COUNTED,
        }


def _default_keys(rows: Iterable[AccessDifference], removes: bool) -> set[str]:
    """Return the items that are selected at first: the groups, or everything if the users are made alike."""
    return {difference_key(row) for row in rows if removes or isinstance(row, Join)}


def _choices(users: Mapping[str, User], rows: list[AccessDifference], chosen: set[str]) -> dict:
    shown, rest = rows[:MAX_ITEMS], rows[MAX_ITEMS:]
    names = [row.group for row in shown if isinstance(row, Join | Leave)]
    groups = {group.name: group for group in groups_with_counts(Group.objects.filter(name__in=names))}
    parts = [
        {
            "title": title,
            "verb": verb.value,
            "rows": [_row(row, groups, chosen) for row in shown if row.verb == verb],
        }
        for verb, title in PARTS.items()
    ]
    return {
        "source": principal_link(users["source"]),
        "target": principal_link(users["target"]),
        "parts": [part for part in parts if part["rows"]],
        "total": len(rows),
        "rest": len(rest),
        "is_rest_selected": bool(rest) and difference_key(rest[0]) in chosen,
        "selected": sum(difference_key(row) in chosen for row in rows),
    }


def _row(row: AccessDifference, groups: dict, chosen: set[str]) -> dict:
    key = difference_key(row)
    context = {
        "change": row,
        "key": key,
        "is_selected": key in chosen,
    }
    return context | ({"counts": groups.get(row.group)} if isinstance(row, Join | Leave) else {})
