"""The people and the groups: found by name, with what each has; and adding one."""

from django.contrib import messages
from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods, require_safe

from authzconsole.web.people.email_field import email_sent
from authzconsole.web.shared.guard import administrator_required, auditor_required, request_author
from authzconsole.web.shared.links import principal_link, principal_url
from authzconsole.web.shared.paging import paginate_names, url_with
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from grants.errors import GrantError
from grants.models import Role, User
from grants.principals.principal_lists import groups_with_counts, users_with_counts
from grants.principals.services import add_group, add_user

ROWS_A_PAGE = 25
TYPES = {"user": "People", "group": "Groups"}
ACTIVITY = {"active": True, "inactive": False}


@require_safe
@auditor_required
def principal_list(request: HttpRequest) -> HttpResponse:
    of = choice_parameter(request, "type", TYPES) or "user"
    find, activity = text_parameter(request, "find", max_characters=150), choice_parameter(request, "activity", ACTIVITY)
    rows = _users(find, activity) if of == "user" else groups_with_counts(Group.objects.filter(name__icontains=find))
    page = paginate_names(request, rows, "username" if of == "user" else "name", max_rows=ROWS_A_PAGE)
    template = "people/_list.html" if requested_section(request) == "people" else "people/list.html"
    return render_page(request, template, {
        "page": page, "rows": [{"row": row, "principal": principal_link(row)} for row in page.rows], "type": of, "find": find,
        "activity": activity, "activities": list(ACTIVITY), "url": request.path, "can_change": request.user.can_administer,
        "types": [(name, title, url_with(request, type=name, after=None, before=None)) for name, title in TYPES.items()],
    })


def _users(find: str, activity: str):
    """An account of the console only is no principal, and stands in the room of the accounts."""
    rows = User.objects.filter(username__icontains=find, is_principal=True)
    return users_with_counts(rows.filter(is_active=ACTIVITY[activity]) if activity else rows)


@require_http_methods(["GET", "HEAD", "POST"])
@administrator_required
def add_principal(request: HttpRequest) -> HttpResponse:
    """A user or a group; a user cannot sign in until a password is set."""
    if request.method != "POST":
        of = "account" if request.GET.get("type") == "account" else choice_parameter(request, "type", TYPES) or "user"
        return _form(request, {"type": of})
    given = {name: request.POST.get(name, "") for name in ("type", "name", "email", "role", "reason")}
    try:
        outcome = _added(request_author(request, given["reason"].strip()), given)
    except GrantError as error:
        return _form(request, given | {"fault": f"{error}."}, status=400)
    messages.add_message(request, messages.SUCCESS if outcome.has_changed else messages.INFO, f"{outcome.sentence}.")
    if given["type"] == "account":
        return see_other(principal_url("account", f"user:{given['name']}"))
    return see_other(principal_url("person", f"{'group' if given['type'] == 'group' else 'user'}:{given['name']}"))


def _added(author, given: dict):
    if given["type"] == "group":
        return add_group(author=author, name=given["name"])
    return add_user(author=author, name=given["name"], email=email_sent(given), role=given["role"] or Role.ORDINARY,
                    is_principal=given["type"] != "account")


def _form(request: HttpRequest, given: dict, *, status: int = 200) -> HttpResponse:
    title = {"group": "Add group", "account": "Add account"}.get(given["type"], "Add person")
    back = ("accounts", "Accounts") if given["type"] == "account" else ("people", "People")
    return render_page(request, "people/add.html", {**given, "title": title, "roles": Role.choices, "back": back}, status=status)
