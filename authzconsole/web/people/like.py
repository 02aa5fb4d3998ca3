"""The page that gives a user the access of a colleague, or makes two users alike, item by item, with one
plan.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import OuterRef, QuerySet, Subquery, Value
from django.db.models.lookups import IsNull
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from authzconsole.web.forms import (
    PERIOD_FIELDS,
    AddressField,
    FlagField,
    ForAdministrators,
    FormPage,
    PeriodForm,
    PrincipalField,
    TextField,
    TextsField,
    optional,
)
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.links import principal_link
from authzconsole.web.shared.rendering import see_other
from entities.address import Address
from entities.errors import Refusal
from entities.models import Entity
from entities.text import storage_fault
from grants.change_set import Join, Leave
from grants.models import GroupGrant, PlanVerb, User
from grants.plans.create import MAX_PLAN_ITEMS
from grants.plans.sources.like import (
    AccessDifference,
    DifferenceSelection,
    difference_key,
    differences,
    like_plan,
    replaced_memberships,
)
from grants.policies.principals import group_text
from grants.principals.principal_lists import MAX_COUNTED, groups_with_counts
from grants.querysets import union_all
from grants.validity import in_force_condition

# items with a checkbox of their own; one checkbox stands for all others
MAX_ITEMS = 500
GROUPS_PER_QUERY = 50
PARTS = {
    PlanVerb.JOIN: "Groups to join",
    PlanVerb.GRANT: "Direct grants to add",
    PlanVerb.LEAVE: "Groups to leave",
    PlanVerb.REVOKE: "Direct grants to revoke",
}


# of LikeForm: what determines the list of differences
QUESTION_FIELDS = ("source", "target", "without", "remove")


class LikeForm(PeriodForm):
    """Two users, and the chosen items in which they differ. remove: also those that only the target has. rest: all
    items without a checkbox of their own. without: a namespace to leave out.
    """

    source = PrincipalField(only="user")
    target = PrincipalField(only="user")
    remove = FlagField()
    without = AddressField(
        required=False,
        label=optional("Leave out a namespace"),
        help_text="A group with grants there is not joined; its other grants are given directly.",
        placeholder="namespace:NAME",
    )
    rest = FlagField()
    item = TextsField()
    # whether only the list is asked for
    show = FlagField()
    # `question` of the list that the items were chosen from
    listed = TextField()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.users: dict[str, User] = {}

    @property
    def question(self) -> str:
        """The fields that determine the list of differences, as one text."""
        return " ".join(str(self.cleaned_data.get(name) or "-") for name in QUESTION_FIELDS)

    @property
    def namespaces(self) -> list[Address]:
        """The namespaces to leave out."""
        return list(filter(None, [self.cleaned_data.get("without")]))

    def clean_without(self) -> Address | None:
        address = self.cleaned_data["without"]
        if address is not None and address.kind != "namespace":
            raise ValidationError(f"{address} is not a namespace.")
        return address

    def clean(self) -> dict:
        super().clean()
        if self.cleaned_data["remove"] and self.namespaces:
            self.add_error(None, "Users cannot be made alike without a namespace: clear one of both.")
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

    URL parameters: source, target, remove (`yes`: also remove what only the target has), without (a namespace).
    """

    form_class = LikeForm
    template_name = "people/changes/like.html"

    def get(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        form = LikeForm(request.GET)
        context = {}
        if form.is_valid() and len(form.users) == 2:
            rows = self._rows(form)
            context = _choices(form, rows, set(map(difference_key, rows)))
        return self.render_to_response(self.get_context_data(form=form, **context))

    def perform(self, form: LikeForm) -> HttpResponse:
        if len(form.users) < 2:
            return self.render_to_response(self.get_context_data(form=form))
        if form.cleaned_data["show"]:
            return self._listed_again(form)
        if form.cleaned_data["listed"] not in ("", form.question):
            messages.warning(
                self.request,
                "No plan was created: the list was for other users or another namespace. This is the new list.",
            )
            return self._listed_again(form)
        values = form.cleaned_data
        self._read_choice(form)
        keys = None if self.chosen.issuperset(map(difference_key, self.rows)) else frozenset(self.chosen)
        plan = like_plan.create(
            request_author(self.request),
            source=form.users["source"].username,
            target=form.users["target"].username,
            remove=values["remove"],
            items=keys,
            period=values["validity"],
            note=" ".join(_reach_warnings(self.rows, self.chosen)),
            without=[str(namespace) for namespace in form.namespaces],
        )
        return see_other(plan_url(plan))

    def _listed_again(self, form: LikeForm) -> HttpResponse:
        """Redirect to the list of the differences between the users that the fields name now."""
        entered = {name: form[name].value() for name in (*QUESTION_FIELDS, *PERIOD_FIELDS)}
        query = {name: "yes" if value is True else value for name, value in entered.items() if value}
        return see_other(reverse("people-like", query=query))

    def _read_choice(self, form: LikeForm) -> None:
        self.rows, values = self._rows(form), form.cleaned_data
        rest = map(difference_key, self.rows[MAX_ITEMS:]) if values["rest"] else ()
        self.chosen = {*values["item"], *rest}

    def form_invalid(self, form: LikeForm) -> HttpResponse:
        if len(form.users) < 2:
            return super().form_invalid(form)
        self._read_choice(form)
        return self._choices_again(form)

    def refusal_response(self, form: LikeForm, error: Refusal) -> HttpResponse:
        return self._choices_again(form)

    def _choices_again(self, form: LikeForm) -> HttpResponse:
        choices = _choices(form, self.rows, self.chosen)
        return self.render_to_response(self.get_context_data(form=form, **choices), status=400)

    def _rows(self, form: LikeForm) -> list[AccessDifference]:
        selection = DifferenceSelection(removes=form.cleaned_data["remove"])
        changes = differences(form.users["source"], form.users["target"], form.namespaces)
        found = islice(changes, MAX_PLAN_ITEMS + 1)
        return [row for row in found if selection.has(row)]

    def get_context_data(self, **context) -> dict:
        values = context["form"].cleaned_data
        return super().get_context_data(**context) | {
            "names": {name: values[name] for name in ("source", "target")},
            "needs_source": not values["source"],
            "remove": values["remove"],
            "without": context["form"]["without"].value() or "",
            "max_items": MAX_ITEMS,
            "max_counted": MAX_COUNTED,
        }


def _namespace_of(row: AccessDifference) -> str:
    """Return the namespace of a grant, as an address; empty outside of namespaces, and for memberships."""
    return "" if isinstance(row, Join | Leave) else str(row.address.namespace or "")


def _reached_namespaces(groups: Iterable[str]) -> dict[str, list[str]]:
    """Return the namespaces in which each group has grants in force, as addresses.

    Runs one query for GROUPS_PER_QUERY groups. Each namespace is looked up in the index for each group, because reading
    all grants of the groups takes much longer.
    """
    reached: dict[str, list[str]] = {}
    names = iter(groups)
    while batch := list(islice(names, GROUPS_PER_QUERY)):
        queries = [_namespaces_of_group(group).values_list(Value(group), "key") for group in batch]
        for group, namespace in sorted(union_all(queries)):
            reached.setdefault(group, []).append(f"namespace:{namespace}")
    return reached


def _namespaces_of_group(group: str) -> QuerySet[Entity]:
    grants = GroupGrant.objects.filter(in_force_condition(), group__name=group, namespace=OuterRef("pk"))
    has_grant = IsNull(Subquery(grants.values("pk")[:1]), False)
    return Entity.objects.filter(has_grant, kind="namespace").order_by()


def _reach_warnings(rows: Sequence[AccessDifference], chosen: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each group to join that gives access in a namespace of which no grant is chosen."""
    kept = {_namespace_of(row) for row in rows if difference_key(row) in chosen}
    excluded = {_namespace_of(row) for row in rows} - kept - {""}
    joined = [row.group for row in rows if isinstance(row, Join) and difference_key(row) in chosen]
    reached = _reached_namespaces(joined) if excluded and joined else {}
    for group, namespaces in reached.items():
        if also := sorted(excluded.intersection(namespaces)):
            yield f"{group_text(group)}, which this plan joins, gives access in {', '.join(also)}, of which no grant is selected."


def _choices(form: LikeForm, rows: list[AccessDifference], chosen: Collection[str]) -> dict:
    users = form.users
    shown, rest = rows[:MAX_ITEMS], rows[MAX_ITEMS:]
    names = [row.group for row in shown if isinstance(row, Join | Leave)]
    groups = {group.name: group for group in groups_with_counts(Group.objects.filter(name__in=names))}
    reached = _reached_namespaces(names)
    parts = []
    for verb, title in PARTS.items():
        of_verb = sorted((row for row in shown if row.verb == verb), key=_namespace_of)
        by_namespace = groupby(of_verb, key=_namespace_of)
        sections = [
            (name, [_row(row, groups, reached, chosen) for row in rows]) for name, rows in by_namespace
        ]
        parts.append(
            {
                "title": title,
                "verb": verb.value,
                "rows": [row for _, rows in sections for row in rows],
                "sections": sections,
            }
        )
    return {
        "source": principal_link(users["source"]),
        "target": principal_link(users["target"]),
        "listed": form.question,
        "replaced": [
            principal_link(group_text(join.group))
            for join in replaced_memberships(users["source"], users["target"], form.namespaces)
        ],
        "parts": [part for part in parts if part["rows"]],
        "total": len(rows),
        "rest": len(rest),
        "is_rest_selected": bool(rest) and difference_key(rest[0]) in chosen,
        "selected": sum(difference_key(row) in chosen for row in rows),
    }


def _row(row: AccessDifference, groups: dict, reached: dict, chosen: Collection[str]) -> dict:
    key = difference_key(row)
    context = {
        "change": row,
        "key": key,
        "is_selected": key in chosen,
    }
    if isinstance(row, Join | Leave):
        context |= {"counts": groups.get(row.group), "reached": reached.get(row.group, [])}
    return context
