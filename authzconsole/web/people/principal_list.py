"""The list of users and groups with their counts, and the form that adds one."""

from functools import reduce
from operator import and_

from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods, require_safe

from authzconsole.web.accounts.email_field import email_from_form
from authzconsole.web.accounts.reauthentication import recent_authentication_required_if
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.links import principal_link, principal_url
from authzconsole.web.shared.paging import paginate_names, url_with, url_with_query
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.rendering import render_page, requested_section, see_other, show_outcome
from authzconsole.web.shared.roles import ROLE_CHOICES, ROLE_LABELS
from grants.errors import GrantError, PrincipalError
from grants.models import Role, User, UserGrant
from grants.principal_rows import principals_by_name
from grants.principals.principal_lists import MAX_COUNTED, groups_with_counts, users_with_counts
from grants.principals.services import add_group, add_user, set_full_name
from grants.querysets import memberships
from grants.roles.capabilities import Capability, role_includes

ROWS_PER_PAGE = 25
TYPES = {"user": "Users", "group": "Groups"}
# (parameter, label, (value, label) of each choice)
FILTER_CHOICES = (
    ("activity", "Any status", (("active", "Active"), ("inactive", "Inactive"))),
    ("role", "Any console role", tuple(ROLE_CHOICES)),
    (
        "account",
        "People and services",
        (("person", "People"), ("service", "Service accounts"), ("only", "No principals")),
    ),
    ("holds", "With or without grants", (("yes", "With direct grants"), ("no", "Without direct grants"))),
)
FORM_FIELDS = ("type", "name", "full_name", "email", "role", "is_service", "like", "reason")


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
        page = paginate_names(request, _users(find, filters), "username", max_rows=ROWS_PER_PAGE)
    else:
        groups = groups_with_counts(Group.objects.filter(name__icontains=find))
        page = paginate_names(request, groups, "name", max_rows=ROWS_PER_PAGE)
    rows = [
        {
            "principal": principal,
            "link": principal_link(principal),
            "role": ROLE_LABELS[principal.role] if type_ == "user" else "",
        }
        for principal in page.rows
    ]
    template = "people/_list.html" if requested_section(request) == "people" else "people/list.html"
    return render_page(
        request,
        template,
        {
            "page": page,
            "rows": rows,
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
            "types": [
                (name, title, url_with(request, type=name, after=None, before=None))
                for name, title in types.items()
            ],
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
        condition = Q(username__icontains=find) | Q(email__icontains=find)
        rows = rows.filter(
            condition
            | reduce(
                and_,
                (Q(first_name__icontains=word) | Q(last_name__icontains=word) for word in find.split()),
                Q(),
            )
            if find.split()
            else condition
        )
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


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(
    Capability.MANAGE_ACCOUNTS,
    Capability.CHANGE_GRANTS,
    visible_to=[Capability.READ_ALL, Capability.READ_ACCOUNTS],
)
@recent_authentication_required_if(lambda request: request.POST.get("role", "") not in ("", Role.ORDINARY))
def add_principal(request: HttpRequest) -> HttpResponse:
    """Add a user, an account or a group. A user cannot sign in until a password is set."""
    if request.method != "POST":
        type_ = (
            "account"
            if request.GET.get("type") == "account"
            else choice_parameter(request, "type", TYPES) or "user"
        )
        return _form_response(request, {"type": type_})
    form = {name: request.POST.get(name, "") for name in FORM_FIELDS}
    colleague = name_from_input(form["like"], "user") if form["type"] == "user" else ""
    try:
        if colleague and f"user:{colleague}" not in principals_by_name([f"user:{colleague}"]):
            raise PrincipalError(f"user:{colleague} does not exist: correct the name of the colleague")
        outcome = _add_from_form(request_author(request, form["reason"].strip()), form)
    except GrantError as error:
        return _form_response(request, form | {"fault": f"{error}."}, status=400)
    show_outcome(request, outcome)
    if colleague:
        return see_other(url_with_query("people-like", {"source": colleague, "target": form["name"]}))
    if form["type"] == "account":
        return see_other(principal_url("account", f"user:{form['name']}"))
    return see_other(
        principal_url("person", f"{'group' if form['type'] == 'group' else 'user'}:{form['name']}")
    )


def _add_from_form(author, form: dict):
    if form["type"] == "group":
        return add_group(author=author, name=form["name"])
    with transaction.atomic():
        outcome = add_user(
            author=author,
            name=form["name"],
            email=email_from_form(form),
            role=form["role"] or Role.ORDINARY,
            is_principal=form["type"] != "account",
            is_service=form["type"] == "account" and form["is_service"] == "yes",
        )
        if form["full_name"].strip() and outcome.has_changed:
            set_full_name(author=author, name=form["name"], full_name=form["full_name"])
    return outcome


def _form_response(request: HttpRequest, form: dict, *, status: int = 200) -> HttpResponse:
    title = {"group": "Add group", "account": "Add account"}.get(form["type"], "Add user")
    back = ("people", "Users and groups")
    return render_page(
        request,
        "people/add.html",
        {
            **form,
            "title": title,
            "back": back,
            "sees_grants": request.user.can_see_all,
            "roles": [choice for choice in ROLE_CHOICES if role_includes(request.user.role, choice[0])],
        },
        status=status,
    )
