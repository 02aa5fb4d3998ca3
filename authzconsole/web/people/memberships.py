"""The form that adds a user to a group or removes one from it. Removing requires confirmation."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from authzconsole.web.effects.forms import (
    NOT_AS_SHOWN,
    effect_context,
    effect_context_if_known,
    refusal_text,
    shown_effect,
)
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.links import principal_link_from_text, principal_url
from authzconsole.web.shared.parameters import field_text
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.rendering import render_page, requested_section, see_other, show_outcome
from authzconsole.web.shared.stranding_warning import membership_removal_warning
from authzconsole.web.shared.times.periods import (
    fields_of_period,
    period_fields,
    period_form_context,
    period_of_form,
)
from grants.change_set import Join, Leave
from grants.changes import ChangeSet, Preview, apply
from grants.errors import GrantError
from grants.models import GroupGrant
from grants.principals.principal_lists import MAX_COUNTED, capped_count
from grants.querysets import memberships
from grants.roles.capabilities import Capability
from grants.validity import ValidityError

VERBS = ("add", "remove")
EFFECT_ID = "member-form-effect"
TITLES = {
    "add": "Add to a group",
    "remove": "Remove from the group",
    "period": "Change the period of a membership",
}
BUTTONS = {"add": "Add to group", "remove": "Remove from group", "period": "Change period"}
FORM_FIELDS = ("user", "group", "page", "reason")


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def change_membership(request: HttpRequest) -> HttpResponse:
    """Add or remove a member. Then redirect to the page of the principal that the form field `page` names."""
    data = request.POST if request.method == "POST" else request.GET
    form = {name: field_text(data, name) for name in FORM_FIELDS}
    form |= {name: name_from_input(form[name], name) for name in ("user", "group")}
    form |= period_fields(data)
    verb = data.get("verb", "") if data.get("verb") in VERBS else "add"
    if request.method != "POST" or "preview" in data:
        return _form_response(request, verb, form)
    author = request_author(request, form["reason"].strip())
    try:
        outcome = apply(_change_set(verb, form), author=author, shown=shown_effect(request))
    except NOT_AS_SHOWN as error:
        fault, status = refusal_text(error)
        return _form_response(request, verb, form, fault=fault, preview=error.preview, status=status)
    except GrantError as error:
        return _form_response(request, verb, form, fault=f"{error}.", status=400)
    show_outcome(request, outcome)
    return see_other(_page_url(form))


def _change_set(verb: str, form: dict) -> ChangeSet:
    """Return the change in the form. Raise ValidityError if its period is invalid."""
    user, group = form["user"], form["group"]
    return ChangeSet.of(Join(user, group, period_of_form(form)) if verb == "add" else Leave(user, group))


def _page_url(form: dict) -> str:
    page = form["page"]
    return principal_url("person", page if page.startswith(("user:", "group:")) else f"group:{form['group']}")


def _form_response(
    request: HttpRequest,
    verb: str,
    form: dict,
    *,
    fault: str = "",
    preview: Preview | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render the form as a page or in the dialog, or only its effect and its buttons. preview: of the change,
    if it is known.
    """
    user, group = form["user"], form["group"]
    templates = {"dialog": "people/_member_form.html", EFFECT_ID: "effects/_actions.html"}
    is_removal = verb == "remove"
    stored = memberships().filter(user__username=user, group__name=group).first() if verb == "add" else None
    if stored is not None and request.method != "POST" and not any(form[name] for name in period_fields({})):
        form = form | fields_of_period(stored.validity)
    return render_page(
        request,
        templates.get(requested_section(request), "people/member.html"),
        {
            **form,
            "verb": verb,
            "fault": fault,
            "max_counted": MAX_COUNTED,
            "effect_id": EFFECT_ID,
            "is_danger": is_removal,
            "button": BUTTONS["period" if stored else verb],
            "has_preview": not is_removal,
            "user_link": principal_link_from_text(f"user:{user}"),
            "group_link": principal_link_from_text(f"group:{group}"),
            "grants": capped_count(GroupGrant.objects.filter(group__name=group)),
            "back": _page_url(form),
            "effect": None if status == 400 else _effect(request, form, verb, preview),
            "title": TITLES["period" if stored else verb],
            "stored": stored,
            "period": form,
            "period_form": period_form_context(),
            "changed_period": stored.validity if stored and stored.validity.is_limited else None,
        },
        status=status,
    )


def _effect(request: HttpRequest, form: dict, verb: str, preview: Preview | None) -> dict | None:
    """Return the effect of the change in the form; None while the form is incomplete or names unknown
    principals.
    """
    user, group = form["user"], form["group"]
    stranding = membership_removal_warning(user, group) if verb == "remove" else None
    if preview is not None:
        return effect_context(request, preview, stranding)
    try:
        change_set = _change_set(verb, form)
    except ValidityError:
        return None
    return effect_context_if_known(request, change_set, [f"user:{user}", f"group:{group}"], stranding)
