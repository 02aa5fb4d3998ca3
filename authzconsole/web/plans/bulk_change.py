"""Making plans for many entities at once, and for the grants on deleted addresses."""

from urllib.parse import urlsplit, urlunsplit

from django.contrib import messages
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.guard import address_or_404, administrator_required, request_author
from authzconsole.web.shared.links import address_link_to, entity_url
from authzconsole.web.shared.rendering import render_page, see_other
from authzconsole.web.shared.row_estimates import estimated_rows
from entities.address import AddressError, instance_address, parse_address
from entities.models import Entity
from entities.selectors import entity_at, live_entities_inside
from entities.vocabulary import CONTAINER_KINDS, KINDS, Privilege, VocabularyError
from grants.errors import GrantError
from grants.models import Plan, PlanVerb
from grants.plans.sources.bulk import MAX_SELECTED, create_selection_plan, create_subtree_plan, kinds_inside, parse_bulk_change
from grants.plans.sources.ghosts import create_ghost_plan

VERBS = {PlanVerb.GRANT: "Grant", PlanVerb.REVOKE: "Revoke"}


@require_http_methods(["GET", "HEAD", "POST"])
@administrator_required
def new_bulk_plan(request: HttpRequest) -> HttpResponse:
    """What shall become of everything in `within`, or of each `address` that was chosen."""
    if request.method != "POST":
        given = _given(request.GET) | _UNTOUCHED
        return _none_chosen(request) if given["is_selection"] and not given["addresses"] else _form(request, given)
    given = _given(request.POST)
    try:
        made = _plan(request, given)
    except (GrantError, VocabularyError, AddressError) as error:
        return _form(request, given, fault=f"No plan was made: {error}.", status=400)
    return see_other(plan_url(made))


# of a form that nobody filled in yet: all kinds are chosen
_UNTOUCHED = {"kinds": None, "itself": True}


def _given(data) -> dict:
    return {
        "within": data.get("within", "").strip(), "addresses": list(dict.fromkeys(data.getlist("address"))),
        "verb": data.get("verb", PlanVerb.GRANT.value), "principal": data.get("principal", ""), "more": data.get("more", ""),
        "privileges": data.getlist("privilege"), "kinds": data.getlist("kind"), "itself": data.get("itself") == "yes",
        "is_selection": "address" in data or data.get("selection") == "yes",
    }


def _plan(request: HttpRequest, given: dict) -> Plan:
    author = request_author(request)
    # names may begin or end with a space: only what is nothing but space is left out
    names = [name for name in (given["principal"], *given["more"].splitlines()) if name.strip()]
    change = parse_bulk_change(verb=given["verb"], principals=names, privileges=given["privileges"])
    if given["is_selection"]:
        return create_selection_plan(author=author, change=change, addresses=map(parse_address, given["addresses"]))
    return create_subtree_plan(author=author, change=change, within=_container(given).address, kinds=given["kinds"],
                           itself=given["itself"])


def _container(given: dict) -> Entity:
    """Where it shall be; the instance unless given. Raises Http404 where there is no such container."""
    entity = entity_at(address_or_404(given["within"] or str(instance_address())))
    if entity is None or entity.kind not in CONTAINER_KINDS:
        raise Http404("there is no such container")
    return entity


def _form(request: HttpRequest, given: dict, *, fault: str = "", status: int = 200) -> HttpResponse:
    scope = _chosen(given) if given["is_selection"] else _inside(given)
    return render_page(request, "plans/many.html", {
        "given": given, "fault": fault, "verbs": [(verb.value, title) for verb, title in VERBS.items()],
        "all_privileges": list(Privilege), "most_chosen": MAX_SELECTED, **scope,
    }, status=status)


def _none_chosen(request: HttpRequest) -> HttpResponse:
    return render_page(request, "plans/none_chosen.html", {"back": _list_url(request), "most_chosen": MAX_SELECTED})


def _list_url(request: HttpRequest) -> str:
    """The page of an entity from which somebody comes; of the instance where that is not told."""
    came_from, entities = urlsplit(request.headers.get("Referer", "")), reverse("entity", args=[":"]).removesuffix(":")
    if came_from.netloc == request.get_host() and came_from.path.startswith(entities):
        return urlunsplit(("", "", came_from.path, came_from.query, "children"))
    return f"{entity_url(instance_address())}#children"


def _chosen(given: dict) -> dict:
    """Each as it was sent: what is no address stands there as text, and is refused with its reason."""
    rows = []
    for text in given["addresses"]:
        try:
            rows.append({"text": text, "address_link": address_link_to(parse_address(text))})
        except AddressError:
            rows.append({"text": text, "address_link": None})
    return {"chosen": rows, "back": reverse("plans")}


def _inside(given: dict) -> dict:
    container = _container(given)
    counts = _counts(container)
    kinds = [{"name": kind, "title": KINDS[kind].plural.capitalize(), "total": None if counts is None else counts.get(kind, 0),
              "is_chosen": given["kinds"] is None or kind in given["kinds"]} for kind in kinds_inside(container.kind)]
    return {"address_link": address_link_to(container), "title_address_link": address_link_to(container, linked=False),
            "kinds": kinds,
            "back": entity_url(container)}


def _counts(container: Entity) -> dict[str, int] | None:
    """How many live entities of each kind lie in it; None where they are too many to be counted at every look."""
    if container.kind == "instance" and estimated_rows(Entity.objects.all()).is_large:
        return None
    return dict(live_entities_inside(container).order_by().values_list("kind").annotate(Count("pk")))


@require_POST
@administrator_required
def new_ghost_plan(request: HttpRequest) -> HttpResponse:
    """Take back the grants on deleted addresses; what is so now counts, and not what a report says."""
    named = request.POST.get("namespace", "").strip()
    try:
        namespace = parse_address(named if not named or ":" in named else f"namespace:{named}") if named else None
        made = create_ghost_plan(author=request_author(request), namespace=namespace)
    except (GrantError, AddressError) as error:
        messages.error(request, f"No plan was made: {error}.")
        return see_other(reverse("plans"))
    return see_other(plan_url(made))
