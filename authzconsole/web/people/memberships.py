"""The form that adds a user to a group or removes one from it. Removing requires confirmation."""

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

SERVICES = {"add": add_member, "remove": remove_member}
FORM_FIELDS = ("user", "group", "page", "reason")


@require_http_methods(["GET", "HEAD", "POST"])
@administrator_required
def change_membership(request: HttpRequest) -> HttpResponse:
    """Add or remove a member. Then redirect to the page of the principal that the form field `page` names."""
    data = request.POST if request.method == "POST" else request.GET
    form = {name: data.get(name, "").replace("\0", "") for name in FORM_FIELDS}
    verb = data.get("verb", "") if data.get("verb") in SERVICES else "add"
    if request.method != "POST":
        return _form_response(request, verb, form)
    try:
        outcome = SERVICES[verb](author=request_author(request, form["reason"].strip()),
                                 user=name_from_input(form["user"], "user"), group=name_from_input(form["group"], "group"))
    except GrantError as error:
        return _form_response(request, verb, form, fault=f"{error}.", status=400)
    messages.add_message(request, messages.SUCCESS if outcome.has_changed else messages.INFO, f"{outcome.sentence}.")
    return see_other(_page_url(form))


def _page_url(form: dict) -> str:
    page = form["page"]
    return principal_url("person", page if page.startswith(("user:", "group:")) else f"group:{form['group']}")


def _form_response(request: HttpRequest, verb: str, form: dict, *, fault: str = "", status: int = 200) -> HttpResponse:
    user, group = (name_from_input(form[name], name) for name in ("user", "group"))
    template = "people/_member_form.html" if requested_section(request) == "dialog" else "people/member.html"
    return render_page(request, template, {
        **form, "verb": verb, "fault": fault, "user": user, "group": group, "max_counted": MAX_COUNTED,
        "user_link": principal_link_from_text(f"user:{user}"), "group_link": principal_link_from_text(f"group:{group}"),
        "grants": capped_count(GroupGrant.objects.filter(group__name=group)), "back": _page_url(form),
        "stranding": membership_removal_warning(user, group) if verb == "remove" else None,
        "title": "Add to a group" if verb == "add" else "Remove from the group",
    }, status=status)
