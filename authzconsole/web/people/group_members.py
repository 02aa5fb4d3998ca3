"""The page that changes the members of a group from a list of names, and creates the plan."""

from django.contrib.auth.models import Group
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from authzconsole.web.effects.forms import effect_context
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.links import principal_link, principal_url
from authzconsole.web.shared.principal_input import principal_or_404
from authzconsole.web.shared.rendering import render_page, see_other
from authzconsole.web.shared.stranding_warning import warning_of_strandings
from authzconsole.web.shared.times.periods import period_fields, period_form_context, period_of_form
from grants.changes import preview
from grants.errors import GrantError, PlanError
from grants.plans.sources.members import (
    MAX_NAMES,
    VERBS,
    BadNames,
    MembersChange,
    create_members_plan,
    members_change,
    read_names,
)
from grants.roles.capabilities import Capability
from grants.validity import Validity

# the page shows the names of an uploaded list again, so that they can be corrected
MAX_LIST_BYTES = 512 * 1024
TITLES = {
    "add": "Add these users",
    "remove": "Remove these users",
    "replace": "Make these users the only members",
}
MAX_SHOWN = 20


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def change_group_members(request: HttpRequest, principal: str) -> HttpResponse:
    """Create a plan from a list of names. With `preview`, only show what it would change."""
    group = principal_or_404(principal)
    if not isinstance(group, Group):
        raise Http404("only groups have members")
    data = request.POST if request.method == "POST" else request.GET
    verb = data.get("verb") if data.get("verb") in VERBS else "add"
    form = {"verb": verb, "text": data.get("text", ""), **period_fields(data)}
    if request.method != "POST":
        return _form_response(request, group, form)
    try:
        raw = _uploaded_list(request)
        form["text"] = raw.decode(errors="replace").removeprefix("\ufeff")
        names, validity = read_names(raw), period_of_form(form) if verb != "remove" else Validity()
        if "preview" in request.POST:
            return _form_response(request, group, form, change=members_change(group, verb, names, validity))
        plan = create_members_plan(
            author=request_author(request), group=group, verb=verb, names=names, validity=validity
        )
    except BadNames as error:
        return _form_response(request, group, form, bad_names=error, status=400)
    except GrantError as error:
        return _form_response(request, group, form, fault=f"No plan was created: {error}.", status=400)
    return see_other(plan_url(plan))


def _uploaded_list(request: HttpRequest) -> bytes:
    """Return the chosen file, or else the pasted text. Raise PlanError if it is too long."""
    upload = request.FILES.get("file")
    raw = (
        request.POST.get("text", "").encode(errors="surrogatepass")
        if upload is None
        else upload.read(MAX_LIST_BYTES + 1)
    )
    if len(raw) > MAX_LIST_BYTES:
        raise PlanError(f"the list is longer than {MAX_LIST_BYTES // 1024:,} kB: split it")
    return raw


def _form_response(
    request: HttpRequest,
    group: Group,
    form: dict,
    *,
    change: MembersChange | None = None,
    bad_names: BadNames | None = None,
    fault: str = "",
    status: int = 200,
) -> HttpResponse:
    address = f"group:{group.name}"
    return render_page(
        request,
        "people/changes/members.html",
        {
            "group": principal_link(group),
            "back": f"{principal_url('person', address)}#members",
            "form": form,
            "fault": fault,
            "url": principal_url("group-members", address),
            "verbs": TITLES.items(),
            "max_names": MAX_NAMES,
            "max_kilobytes": MAX_LIST_BYTES // 1024,
            "bad_names": bad_names,
            "period_form": period_form_context(),
            "preview": _preview_context(request, change) if change else None,
        },
        status=status,
    )


def _preview_context(request: HttpRequest, change: MembersChange) -> dict:
    """Return what the page says about the change. Runs the queries of its effect, if it changes members."""
    context = {
        "change": change,
        "first_joining": change.join[:MAX_SHOWN],
        "first_leaving": change.leave[:MAX_SHOWN],
        "more_joining": max(0, len(change.join) - MAX_SHOWN),
        "more_leaving": max(0, len(change.leave) - MAX_SHOWN),
    }
    if not change.change_set.changes:
        return context
    shown = preview(change.change_set)
    strandings = shown.strandings
    warning = warning_of_strandings(strandings) if strandings and strandings.entities else None
    return context | {"effect": effect_context(request, shown, warning)}
