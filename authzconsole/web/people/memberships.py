"""Putting a user into a group and taking one out; the second asks first."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from authzconsole.web.shared.guard import administrator_required, request_author
from authzconsole.web.shared.links import principal_link_from_text, principal_url
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from authzconsole.web.shared.stranding_warning import membership_removal_warning
from grants.errors import GrantError
from grants.models import GroupGrant
from grants.principals.principal_lists import MAX_COUNTED, capped_count
from grants.principals.services import add_member, remove_member

VERBS = {"add": add_member, "remove": remove_member}


@require_http_methods(["GET", "HEAD", "POST"])
@administrator_required
def change_membership(request: HttpRequest) -> HttpResponse:
    """page: of whom the page is that the form stands on, and that is shown again afterwards."""
    data = request.POST if request.method == "POST" else request.GET
    given = {name: data.get(name, "").replace("\0", "") for name in ("user", "group", "page", "reason")}
    verb = data.get("verb", "") if data.get("verb") in VERBS else "add"
    if request.method != "POST":
        return _form(request, verb, given)
    try:
        outcome = VERBS[verb](author=request_author(request, given["reason"].strip()),
                              user=name_from_input(given["user"], "user"),
                              group=name_from_input(given["group"], "group"))
    except GrantError as error:
        return _form(request, verb, given, fault=f"{error}.", status=400)
    messages.add_message(request, messages.SUCCESS if outcome.has_changed else messages.INFO, f"{outcome.sentence}.")
    return see_other(_page_url(given))


def _page_url(given: dict) -> str:
    page = given["page"]
    return principal_url("person", page if page.startswith(("user:", "group:")) else f"group:{given['group']}")


def _form(request: HttpRequest, verb: str, given: dict, *, fault: str = "", status: int = 200) -> HttpResponse:
    user, group = (name_from_input(given[name], name) for name in ("user", "group"))
    template = "people/_member_form.html" if requested_section(request) == "dialog" else "people/member.html"
    return render_page(request, template, {
        **given, "verb": verb, "fault": fault, "user": user, "group": group, "most": MAX_COUNTED,
        "member": principal_link_from_text(f"user:{user}"), "joined": principal_link_from_text(f"group:{group}"),
        "grants": capped_count(GroupGrant.objects.filter(group__name=group)), "back": _page_url(given),
        "stranding": membership_removal_warning(user, group) if verb == "remove" else None,
        "title": "Put into a group" if verb == "add" else "Take out of the group",
    }, status=status)
