"""The list of users and groups with their counts, and the form that adds one."""

from functools import reduce
from operator import and_

from django import forms
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.forms import (
    ConsoleForm,
    EmailField,
    FlagField,
    FormPage,
    NameInput,
    PrincipalField,
    TextField,
    optional,
    reason_field,
)
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.links import principal_url
from authzconsole.web.shared.paging import keyset_page, url_with_query
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.rendering import render_page, requested_section, see_other, show_outcome
from grants.journal import Author
from grants.models import Role, User, UserGrant
from grants.outcomes import Outcome
from grants.policies.principals import ROLE_PREFIX
from grants.principal_names import principals_by_name
from grants.principals.principal_lists import MAX_COUNTED, groups_with_counts, users_with_counts
from grants.principals.services import add_group, add_role, add_user, set_full_name
from grants.querysets import memberships
from grants.roles.capabilities import Capability, role_includes

ROWS_PER_PAGE = 25
TYPES = {"user": "Users", "group": "Groups", "role": "Roles"}
# (parameter, label, (value, label) of each choice)
FILTER_CHOICES = (
    ("activity", "Any status", (("active", "Active"), ("inactive", "Inactive"))),
    ("role", "Any console role", tuple(Role.choices)),
    (
        "account",
        "People and services",
        (("person", "People"), ("service", "Service accounts"), ("only", "No principals")),
    ),
    ("holds", "With or without grants", (("yes", "With direct grants"), ("no", "Without direct grants"))),
)


@require_safe
@capability_required(Capability.READ_ALL, Capability.READ_ACCOUNTS)
def principal_list(request: HttpRequest) -> HttpResponse:
    """Show all users, who include all accounts, or all groups. Runs one query, and one for the names of
    groups in the filter.

    Accounts that see no grants get the users only, without memberships and without numbers of grants.
    """
    sees_grants = request.user.can_see_all
    types = TYPES if sees_grants else {"user": TYPES["user"]}
    type_ = choice_parameter(request, "type", types) or "user"
    find, filters = (
        text_parameter(request, "find", max_characters=150),
        _filters(request, sees_grants) if type_ == "user" else {},
    )
    if type_ == "user":
        page = keyset_page(request, _users(find, filters), "username", max_rows=ROWS_PER_PAGE)
    else:
        is_role = Q(name__startswith=ROLE_PREFIX)
        groups = Group.objects.filter(is_role if type_ == "role" else ~is_role, name__icontains=find)
        groups = groups_with_counts(groups)
        page = keyset_page(request, groups, "name", max_rows=ROWS_PER_PAGE)
    template = "people/_list.html" if requested_section(request) == "people" else "people/list.html"
    return render_page(
        request,
        template,
        {
            "page": page,
            "type": type_,
            "find": find,
            "filters": filters,
            "sees_grants": sees_grants,
            "choices": [choice for choice in FILTER_CHOICES if choice[0] in filters],
            "group": filters.get("group", ""),
            "is_filtered": bool(find or any(filters.values())),
            "url": request.path,
            "can_add_users": request.user.can(Capability.MANAGE_ACCOUNTS),
            "can_add_groups": request.user.can_administer,
            "can_see_tokens": request.user.can(Capability.READ_ACCOUNTS),
            "max_counted": MAX_COUNTED,
            "types": types.items(),
        },
    )


def _filters(request: HttpRequest, sees_grants: bool) -> dict[str, str]:
    """Return the value of each filter; empty if it is not set."""
    filters = {name: choice_parameter(request, name, dict(choices)) for name, _, choices in FILTER_CHOICES}
    if not sees_grants:
        return {name: value for name, value in filters.items() if name != "holds"}
    return filters | {"group": name_from_input(text_parameter(request, "group", max_characters=150), "group")}


def _users(find: str, filters: dict[str, str]) -> QuerySet[User]:
    rows = User.objects.all()
    if find:
        words = (Q(first_name__icontains=word) | Q(last_name__icontains=word) for word in find.split())
        rows = rows.filter(Q(username__icontains=find) | Q(email__icontains=find) | reduce(and_, words))
    if activity := filters["activity"]:
        rows = rows.filter(is_active=activity == "active")
    if role := filters["role"]:
        rows = rows.filter(role=role)
    if account := filters["account"]:
        rows = rows.filter(
            **{
                "service": {"is_service": True},
                "person": {"is_service": False},
                "only": {"is_principal": False},
            }[account]
        )
    if holds := filters.get("holds"):
        has_grants = Exists(UserGrant.objects.filter(user=OuterRef("pk")))
        rows = rows.filter(has_grants if holds == "yes" else ~has_grants)
    if group := filters.get("group"):
        rows = rows.filter(Exists(memberships().filter(user=OuterRef("pk"), group__name=group)))
    return users_with_counts(rows)


class NewPrincipalForm(ConsoleForm):
    """A new user, account or group."""

    id_pattern = "add-%s"

    type = TextField(widget=forms.HiddenInput)
    name = TextField(label="Name", required=True, strip=False, max_characters=150, widget=NameInput())
    full_name = TextField(label=optional("Full name"), max_characters=150)
    email = EmailField(label=optional("Email"), widget=forms.TextInput(attrs={"inputmode": "email"}))
    role = TextField(label="Console role", help_text="Grants no access to data.", widget=forms.Select)
    is_service = FlagField(label="Service account: owns API tokens for a program, and can never sign in")
    like = PrincipalField(
        only="user",
        label=optional("Access like a colleague"),
        placeholder="NAME",
        help_text="You choose the groups and grants in the next step.",
    )
    reason = reason_field()

    def clean(self) -> dict:
        values = self.cleaned_data
        if values["type"] != "user":
            values["like"] = ""
        colleague = values["like"]
        if colleague and f"user:{colleague}" not in principals_by_name([f"user:{colleague}"]):
            self.add_error("like", f"user:{colleague} does not exist: correct the name of the colleague.")
        return values


class AddPrincipal(FormPage):
    """Add a user, an account or a group. A user cannot sign in until a password is set."""

    capabilities = (Capability.MANAGE_ACCOUNTS, Capability.CHANGE_GRANTS)
    visible_to = (Capability.READ_ALL, Capability.READ_ACCOUNTS)
    form_class = NewPrincipalForm
    template_name = "people/add.html"

    def get_initial(self) -> dict:
        type_ = choice_parameter(self.request, "type", [*TYPES, "account"])
        return {"type": type_ or "user"}

    def get_form(self) -> NewPrincipalForm:
        form = super().get_form()
        role = self.request.user.role
        form.fields["role"].widget.choices = [
            choice for choice in Role.choices if role_includes(role, choice[0])
        ]
        return form

    def perform(self, form: NewPrincipalForm) -> HttpResponse:
        is_sensitive = form.cleaned_data["role"] not in ("", Role.ORDINARY)
        add = recent_authentication_required(self._add) if is_sensitive else self._add
        return add(self.request, form)

    def _add(self, request: HttpRequest, form: NewPrincipalForm) -> HttpResponse:
        values = form.cleaned_data
        name, type_ = values["name"], values["type"]
        show_outcome(self.request, _add_from_form(self.author(form), values))
        if values["like"]:
            return see_other(url_with_query("people-like", {"source": values["like"], "target": name}))
        if type_ == "account":
            return see_other(principal_url("account", f"user:{name}"))
        return see_other(principal_url("person", f"{type_}:{name}"))

    def get_context_data(self, **context) -> dict:
        context = super().get_context_data(**context)
        type_ = context["form"]["type"].value()
        return context | {
            "type": type_,
            "title": {"group": "Add group", "role": "Add role", "account": "Add account"}.get(
                type_, "Add user"
            ),
            "back": ("people", "Users and groups"),
            "sees_grants": self.request.user.can_see_all,
        }


def _add_from_form(author: Author, values: dict) -> Outcome:
    name, full_name = values["name"], values["full_name"]
    if values["type"] in ("group", "role"):
        add = add_group if values["type"] == "group" else add_role
        return add(author=author, name=name)
    with transaction.atomic():
        outcome = add_user(
            author=author,
            name=name,
            email=values["email"],
            role=values["role"] or Role.ORDINARY,
            is_principal=values["type"] != "account",
            is_service=values["type"] == "account" and values["is_service"],
        )
        if full_name and outcome.has_changed:
            set_full_name(author=author, name=name, full_name=full_name)
    return outcome
