"""Plans: the list of them, one with what it changes, and what becomes of it."""

from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from analytics.analyses import AnalysisError, AnalysisName
from analytics.regrant_plans import create_regrant_plan
from analytics.storage import StorageError
from authzconsole.web.reports.run_details import run_or_404
from authzconsole.web.shared.guard import administrator_required, auditor_required, request_author
from authzconsole.web.shared.links import address_link_to, entity_url, principal_link_from_text
from authzconsole.web.shared.paging import QuerySetSequence, paginate_sequence
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.principal_input import name_from_input, principal_from_input
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from entities.address import AddressError, parse_address
from entities.vocabulary import KINDS
from grants.errors import GrantError, StaleBase
from grants.models import Plan, PlanItem, PlanState
from grants.plans.apply import apply_plan, create_inverse_plan, discard_plan
from grants.plans.effect import PrincipalEffect, PrincipalEffects, Tally, stranded_entities
from grants.plans.renew import RENEWALS, renew_plan
from grants.plans.sources.origins import create_plan_from_copy, create_readiness_plan
from grants.plans.staleness import line_summary, stale_line
from grants.policies.catalogue import UnknownGeneration

PLANS_A_PAGE = 25
PRINCIPALS_A_PAGE = 20
ITEMS_A_PAGE = 50
MAX_STRANDED = 12
ORIGINS = {"change-set": "chosen by hand", "copy": "copied from somebody", "readiness": "to make a namespace deletable",
           AnalysisName.POLICY_IMPACT: "to keep what people have", "inverse": "to undo a plan",
           "subtree": "for all in a container",
           "selection": "for chosen entities", "ghosts": "to take ghost grants back", "file": "from a file"}
UNCONFIRMED = "Nothing was changed: confirm that it leaves entities with fewer than two administrators, or discard it."
FIELDS = ("source", "target", "within")


class PlanItemSequence(Sequence):
    """The items of a plan: numbered without gaps, so that a page in the middle costs what the first one costs."""

    def __init__(self, plan: Plan):
        self._plan = plan

    def __len__(self) -> int:
        return sum(self._plan.effect[name] for name in ("grants", "revokes", "already"))

    def __getitem__(self, place: slice) -> list[PlanItem]:
        return list(self._plan.items.filter(position__gt=place.start, position__lte=place.stop).order_by("position"))


@require_safe
@auditor_required
def plan_list(request: HttpRequest) -> HttpResponse:
    return _list_page(request, dict.fromkeys(FIELDS, ""))


def _list_page(request: HttpRequest, given: dict, *, fault: str = "", status: int = 200) -> HttpResponse:
    state = choice_parameter(request, "state", PlanState.values)
    rows = Plan.objects.filter(**{"state": state} if state else {}).order_by("-pk")
    page = paginate_sequence(request, QuerySetSequence(rows), max_rows=PLANS_A_PAGE, name="page")
    return render_page(request, "plans/list.html", {
        "page": page, "rows": [_listed(plan) for plan in page.rows], "state": state, "states": PlanState.values, "given": given,
        "fault": fault, "can_change": request.user.can_administer,
    }, status=status)


def _listed(plan: Plan) -> dict:
    return {"plan": plan, "origin": ORIGINS.get(plan.origin, plan.origin), "url": plan_url(plan)}


def plan_url(plan: Plan) -> str:
    return reverse("plan", args=[plan.pk])


def _effects(request: HttpRequest, plan: Plan) -> dict:
    page = paginate_sequence(request, PrincipalEffects(plan, plan.effect["principals"]), max_rows=PRINCIPALS_A_PAGE,
                            name="principals")
    return {"page": page, "rows": [_shown_effect(effect) for effect in page.rows]}


def _shown_effect(effect: PrincipalEffect) -> dict:
    shown = principal_link_from_text(effect.principal)
    return {"principal": shown if effect.members is None else shown.with_members(effect.members),
            "gains": _shown_tally(effect.gains), "losses": _shown_tally(effect.losses)}


def _shown_tally(tally: Tally) -> list[tuple]:
    """(privilege, words) such as (ADMIN, `3 datasets, 1 stream`), in the order of the vocabulary."""
    words: dict[str, list[str]] = {}
    for kind in KINDS.values():
        for (of, privilege), total in tally.items():
            if of == kind.name:
                words.setdefault(privilege, []).append(f"{total:,} {kind.title if total == 1 else kind.plural}")
    return [(privilege, ", ".join(words[privilege])) for privilege in sorted(words)]


def _items(request: HttpRequest, plan: Plan) -> dict:
    page = paginate_sequence(request, PlanItemSequence(plan), max_rows=ITEMS_A_PAGE, name="items")
    return {"page": page,
            "rows": [{"item": item, "principal": principal_link_from_text(item.principal),
                      "address_link": address_link_to(item.address)}
                                   for item in page.rows]}


# by the id of the part; the template of each is plans/_<id>.html
PARTS: dict[str, Callable[[HttpRequest, Plan], dict]] = {"effects": _effects, "items": _items}


@require_safe
@auditor_required
def plan_page(request: HttpRequest, pk: int) -> HttpResponse:
    return _plan_page(request, _plan_or_404(pk), reason=text_parameter(request, "reason"))


def _plan_or_404(pk: int) -> Plan:
    found = Plan.objects.select_related("inverse_of", "renewal_of").filter(pk=pk).first()
    if found is None:
        raise Http404("there is no such plan")
    return found


def _plan_page(request: HttpRequest, found: Plan, *, fault: str = "", reason: str = "", status: int = 200) -> HttpResponse:
    part = requested_section(request)
    if part in PARTS:
        return render_page(request, f"plans/_{part}.html", {"plan": found, part: PARTS[part](request, found)})
    line = stale_line(found) if found.is_proposed else None
    strands = found.effect["stranded_none"] + found.effect["stranded_one"]
    return render_page(request, "plans/page.html", {
        **_listed(found), "figures": list(_figures(found, strands)), "fault": fault, "reason": reason,
        "can_change": request.user.can_administer,
        "stale": f"What this plan depends on was changed since: {line_summary(line)}." if line else "",
        "can_renew": found.origin in RENEWALS, "changes": found.effect["grants"] + found.effect["revokes"], "strands": strands,
        "stranded": [{"address_link": address_link_to(row.address), "admins": row.admins}
                     for row in stranded_entities(found, most_rows=MAX_STRANDED)],
        "stranded_more": max(0, strands - MAX_STRANDED), "followers": list(found.inverses.order_by("-pk")[:1]),
        "aim": _aim(found) if found.state == PlanState.APPLIED else None,
        **{name: section(request, found) for name, section in PARTS.items()},
    }, status=status)


def _aim(found: Plan) -> dict | None:
    """What the plan, or the one that it undoes, was made for, and where one sees whether that is so now."""
    made_for = found.inverse_of or found
    recipe = made_for.recipe
    match made_for.origin:
        case "readiness":
            namespace = parse_address(recipe["namespace"])
            return {"words": f"Look whether {recipe['user']} can delete {namespace} now",
                    "analysis": AnalysisName.DELETE_READINESS,
                    "url": f"{entity_url(namespace)}?{urlencode({'deleter': recipe['user']})}#readiness",
                    "generation": recipe["generation"]}
        case AnalysisName.POLICY_IMPACT if made_for is found:
            return {"words": f"Make {recipe['to_generation']} the active generation",
                    "url": reverse("generation-activate", args=[recipe["to_generation"]])}
    return None


def _figures(found: Plan, strands: int) -> Iterator[tuple[int, str, str]]:
    """(figure, unit, meaning); what is always said first, and what is nothing left out."""
    effect, is_over = found.effect, found.state == PlanState.APPLIED
    for figure, one, many in (
        (effect["grants"], *(("grant made", "grants made") if is_over else ("grant to make", "grants to make"))),
        (effect["revokes"], *(("grant taken back", "grants taken back") if is_over
                              else ("grant to take back", "grants to take back"))),
        (effect["principals"], "person or group gains or loses", "people and groups gain or lose"),
    ):
        yield figure, one if figure == 1 else many, ""
    for figure, one, many, meaning in (
        (effect["already"], "item that was so already", "items that were so already", ""),
        (effect["planned"], "address registered as planned", "addresses registered as planned", ""),
        (strands, "entity left with fewer than two administrators", "entities left with fewer than two administrators", "bad"),
    ):
        if figure:
            yield figure, one if figure == 1 else many, meaning


@require_POST
@administrator_required
def apply_plan_view(request: HttpRequest, pk: int) -> HttpResponse:
    found, reason = _plan_or_404(pk), request.POST.get("reason", "").strip()
    strands = found.effect["stranded_none"] + found.effect["stranded_one"]
    if found.is_proposed and strands and request.POST.get("strand") != "yes":
        return _plan_page(request, found, reason=reason, fault=UNCONFIRMED, status=400)
    try:
        applied = apply_plan(author=request_author(request, reason), plan_id=pk)
    except StaleBase:
        # the page says what was changed since
        return _plan_page(request, found, reason=reason, status=409)
    except GrantError as error:
        return _plan_page(request, _plan_or_404(pk), fault=f"Nothing was changed: {error}.", reason=reason, status=400)
    messages.success(request, f"Plan {applied.pk} is applied: {_done(applied)}.")
    return see_other(plan_url(applied))


def _done(applied: Plan) -> str:
    effect = applied.effect
    parts = [f"{effect[name]:,} {word}" for name, word in (("grants", "granted"), ("revokes", "revoked")) if effect[name]]
    return ", ".join(parts) or "everything was so already, and nothing changed"


@require_POST
@administrator_required
def discard_plan_view(request: HttpRequest, pk: int) -> HttpResponse:
    return _followed(request, pk, lambda author: discard_plan(author=author, plan_id=pk), "Plan {0.pk} is discarded.")


@require_POST
@administrator_required
def undo_plan_view(request: HttpRequest, pk: int) -> HttpResponse:
    return _followed(request, pk, lambda author: create_inverse_plan(author=author, plan_id=pk),
                     "This plan takes back what plan {0.inverse_of_id} changed. Nothing is changed until you apply it.")


@require_POST
@administrator_required
def renew_plan_view(request: HttpRequest, pk: int) -> HttpResponse:
    """The reason that was written for the stale plan is the new one's, until somebody writes another."""
    return _followed(request, pk, lambda author: renew_plan(author=author, plan_id=pk),
                     "This plan was made anew from what is so now. Look at it, and apply it.",
                     reason=request.POST.get("reason", "").strip())


def _followed(request: HttpRequest, pk: int, decide: Callable, sentence: str, *, reason: str = "") -> HttpResponse:
    found = _plan_or_404(pk)
    try:
        decided = decide(request_author(request))
    except (GrantError, AddressError) as error:
        return _plan_page(request, found, fault=f"{error}.", reason=reason, status=400)
    messages.success(request, sentence.format(decided))
    return see_other(f"{plan_url(decided)}?{urlencode({'reason': reason})}" if reason else plan_url(decided))


@require_POST
@administrator_required
def new_plan_from_readiness(request: HttpRequest) -> HttpResponse:
    """Close the gap between what somebody holds and what deleting a namespace asks for."""
    given = {name: request.POST.get(name, "").strip() for name in ("namespace", "generation")}
    user = name_from_input(request.POST.get("user", ""), "user")
    principal = principal_from_input(request.POST.get("principal", ""))
    try:
        made = create_readiness_plan(author=request_author(request), namespace=parse_address(given["namespace"]), user=user,
                                 generation=given["generation"] or None, principal=principal)
    except (GrantError, AddressError, UnknownGeneration) as error:
        messages.error(request, f"{error}.")
        return see_other(reverse("plans"))
    return see_other(plan_url(made))


@require_POST
@administrator_required
def new_plan_from_impact(request: HttpRequest, pk: int) -> HttpResponse:
    """Keep what people have, as the report of a policy impact says it."""
    run = run_or_404(pk)
    scope = {name: name_from_input(request.POST.get(name, ""), name) for name in ("user", "group")}
    scope["namespace"] = request.POST.get("namespace", "").strip()
    try:
        made = create_regrant_plan(author=request_author(request), run=run, **scope)
    except (GrantError, AnalysisError, StorageError) as error:
        messages.error(request, f"No plan was made: {error}.")
        return see_other(reverse("analysis", args=[run.pk]))
    return see_other(plan_url(made))


@require_POST
@administrator_required
def new_plan_from_copy(request: HttpRequest) -> HttpResponse:
    given = {name: principal_from_input(request.POST.get(name, "")) for name in ("source", "target")}
    given["within"] = request.POST.get("within", "").strip()
    try:
        within = parse_address(given["within"]) if given["within"] else None
        made = create_plan_from_copy(author=request_author(request), source=given["source"], target=given["target"],
                                     within=within)
    except (GrantError, AddressError) as error:
        return _list_page(request, given, fault=f"{error}.", status=400)
    return see_other(plan_url(made))
