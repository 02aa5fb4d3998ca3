"""The forms that create plans for many entities at once, and for the ghost grants on deleted entities."""

from django.contrib import messages
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from authzconsole.web.plans.bulk_count import change_of_form, selection_count, subtree_count
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.guard import address_or_404, capability_required, request_author
from authzconsole.web.shared.links import address_link_to, entity_url
from authzconsole.web.shared.rendering import referring_page, render_page, requested_section, see_other
from authzconsole.web.shared.row_estimates import estimated_rows
from authzconsole.web.shared.times.periods import period_fields, period_form_context
from entities.address import AddressError, instance_address, parse_address
from entities.models import Entity
from entities.selectors import entity_at, live_entities_inside
from entities.vocabulary import CONTAINER_KINDS, KINDS, Privilege, VocabularyError, privilege_by_name
from grants.change_set import Revoke
from grants.errors import GrantError
from grants.models import Plan, PlanVerb
from grants.plans.sources.bulk import MAX_SELECTED, create_selection_plan, create_subtree_plan, kinds_inside
from grants.plans.sources.ghosts import create_ghost_plan, create_selected_ghost_plan
from grants.principal_names import format_principal
from grants.roles.capabilities import Capability

# by the id of the section; its template is plans/bulk/_<id>.html
SECTIONS = ("bulk-kinds", "bulk-count")
# "All" does not select them; they are changed only if they are selected by name
SECRET_KINDS = ("securekey",)
VERBS = {PlanVerb.GRANT: "Grant", PlanVerb.REVOKE: "Revoke"}


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def new_bulk_plan(request: HttpRequest) -> HttpResponse:
    """Create a plan for all entities inside the container `within`, or for each selected `address`.

    With `select` or `count`, only show the form again: with all or no kinds selected, or with the number of
    changes.
    """
    if request.method != "POST":
        form = _form_data(request.GET)
        if form["is_selection"] and not form["addresses"]:
            return _nothing_selected_response(request)
        return _form_response(request, form)
    form = _form_data(request.POST)
    if "select" in request.POST or "count" in request.POST:
        return _form_response(request, form)
    try:
        plan = _create_plan(request, form)
    except (GrantError, VocabularyError, AddressError) as error:
        return _form_response(request, form, fault=f"No plan was created: {error}.", status=400)
    return see_other(plan_url(plan))


def _form_data(data) -> dict:
    return {
        "within": data.get("within", "").strip(),
        "addresses": list(dict.fromkeys(data.getlist("address"))),
        "verb": data.get("verb", PlanVerb.GRANT.value),
        "principal": data.get("principal", ""),
        "more": data.get("more", ""),
        "privileges": data.getlist("privilege"),
        "kinds": data.getlist("kind"),
        "itself": data.get("itself") == "yes",
        **period_fields(data),
        "is_selection": "address" in data or data.get("selection") == "yes",
        "select": data.get("select", ""),
    }


def _create_plan(request: HttpRequest, form: dict) -> Plan:
    author = request_author(request)
    change = change_of_form(form)
    if form["is_selection"]:
        return create_selection_plan(
            author=author, change=change, addresses=map(parse_address, form["addresses"])
        )
    return create_subtree_plan(
        author=author,
        change=change,
        within=_container(form).address,
        kinds=form["kinds"],
        includes_container=form["itself"],
    )


def _container(form: dict) -> Entity:
    """Return the container of the form, by default the instance.

    Raise Http404 if there is no such container.
    """
    entity = entity_at(address_or_404(form["within"] or str(instance_address())))
    if entity is None or entity.kind not in CONTAINER_KINDS:
        raise Http404("there is no such container")
    return entity


def _form_response(request: HttpRequest, form: dict, *, fault: str = "", status: int = 200) -> HttpResponse:
    target = _selection(form) if form["is_selection"] else _subtree(form)
    section = requested_section(request)
    template = f"plans/bulk/_{section}.html" if section in SECTIONS else "plans/bulk_change.html"
    return render_page(
        request,
        template,
        {
            "form": form,
            "fault": fault,
            "verbs": [(verb.value, title) for verb, title in VERBS.items()],
            "all_privileges": list(Privilege),
            "max_selected": MAX_SELECTED,
            "period_form": period_form_context(),
            **target,
        },
        status=status,
    )


def _nothing_selected_response(request: HttpRequest) -> HttpResponse:
    return render_page(
        request,
        "plans/nothing_selected.html",
        {"back": _entity_list_url(request), "max_selected": MAX_SELECTED},
    )


def _entity_list_url(request: HttpRequest) -> str:
    """Return the URL of the entity page from which the user came (Referer); otherwise that of the instance."""
    referrer, entities = referring_page(request), reverse("entity", args=[":"]).removesuffix(":")
    if referrer.startswith(entities):
        return f"{referrer}#children"
    return f"{entity_url(instance_address())}#children"


def _selection(form: dict) -> dict:
    """Return the context for the selected entities.

    Invalid addresses are kept as text, so that the user can correct the form.
    """
    rows = []
    for text in form["addresses"]:
        try:
            rows.append({"text": text, "address_link": address_link_to(parse_address(text))})
        except AddressError:
            rows.append({"text": text, "address_link": None})
    return {"selected_rows": rows, "back": reverse("plans"), "count": selection_count(form)}


def _subtree(form: dict) -> dict:
    """Return the context for a container, with the number of live entities by kind inside it."""
    container = _container(form)
    counts, possible = _counts_by_kind(container), kinds_inside(container.kind)
    if form["select"]:
        form["itself"] = form["select"] == "all"
        form["kinds"] = [kind for kind in possible if form["itself"] and kind not in SECRET_KINDS]
    kinds = [
        {
            "name": kind,
            "title": KINDS[kind].plural.capitalize(),
            "total": None if counts is None else counts.get(kind, 0),
            "is_selected": kind in form["kinds"],
        }
        for kind in possible
    ]
    return {
        "address_link": address_link_to(container),
        "title_address_link": address_link_to(container, is_linked=False),
        "kinds": kinds,
        "has_secret_kinds": any(kind in SECRET_KINDS for kind in possible),
        "back": entity_url(container),
        "count": subtree_count(form, container, counts),
    }


def _counts_by_kind(container: Entity) -> dict[str, int] | None:
    """Return the number of live entities by kind; None if there are too many to count in a request."""
    if container.kind == "instance" and estimated_rows(Entity.objects.all()).is_large:
        return None
    return dict(live_entities_inside(container).order_by().values_list("kind").annotate(Count("pk")))


@require_POST
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def new_ghost_plan(request: HttpRequest) -> HttpResponse:
    """Create a plan that revokes selected ghost grants of a report, or all current grants on deleted
    entities.
    """
    try:
        plan = (
            _plan_of_selected_ghosts(request) if "selection" in request.POST else _plan_of_all_ghosts(request)
        )
    except (GrantError, AddressError, VocabularyError) as error:
        messages.error(request, f"No plan was created: {error}.")
        return see_other(_report_url(request.POST.get("run", "")) or reverse("plans"))
    return see_other(plan_url(plan))


def _plan_of_all_ghosts(request: HttpRequest) -> Plan:
    name = request.POST.get("namespace", "").strip()
    namespace = parse_address(name if ":" in name else f"namespace:{name}") if name else None
    return create_ghost_plan(author=request_author(request), namespace=namespace)


def _plan_of_selected_ghosts(request: HttpRequest) -> Plan:
    grants = [_ghost_of_row(text) for text in dict.fromkeys(request.POST.getlist("grant"))]
    return create_selected_ghost_plan(author=request_author(request), grants=grants)


def _ghost_of_row(text: str) -> Revoke:
    """Return the revocation of the grant of a checkbox: principal, address and privilege, separated by tabs, which none of them
    can contain.
    """
    principal, address, privilege = [*text.split("\t"), "", ""][:3]
    return Revoke(format_principal(principal), parse_address(address), privilege_by_name(privilege))


def _report_url(run: str) -> str:
    return reverse("analysis", args=[int(run)]) if run.isascii() and run.isdigit() and len(run) < 18 else ""
