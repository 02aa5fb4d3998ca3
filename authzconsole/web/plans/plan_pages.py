"""The list of plans, and the page of one plan with its effect and items.

The views that create, apply, discard, undo and renew plans are in `plan_actions`.
"""

from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from analytics.analyses import AnalysisName
from authzconsole.web.forms import AddressField, ConsoleForm, FormPage, NameInput, PrincipalField, optional
from authzconsole.web.plans.sections import (
    activation_of_plan,
    confirmation_context,
    kept_not_section,
    permissions_section,
)
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.links import address_link_to, entity_url, principal_link_from_text
from authzconsole.web.shared.paging import paginate_sequence, url_with_query
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.rendering import render_page, requested_section
from entities.address import parse_address
from entities.vocabulary import KINDS
from grants.authority.four_eyes import application_fault
from grants.models import GRANT_VERBS, Plan, PlanItem, PlanState
from grants.plans.create import PlanOrigin
from grants.plans.effect import PrincipalEffect, PrincipalEffects, Tally, change_count, plan_counts
from grants.plans.renew import can_renew
from grants.plans.staleness import invalidating_line, line_summary
from grants.plans.stranding import stranded_entities
from grants.roles.capabilities import Capability

PLANS_PER_PAGE = 25
PRINCIPALS_PER_PAGE = 20
ITEMS_PER_PAGE = 50
MAX_STRANDED = 12
# by the stored origin of a plan
ORIGIN_LABELS = {
    "change-set": "from a question",
    "copy": "copy",
    "readiness": "to make a namespace deletable",
    AnalysisName.POLICY_IMPACT: "to keep current permissions",
    "inverse": "to undo a plan",
    "subtree": "bulk change",
    "selection": "bulk change of selected entities",
    "ghosts": "ghost grant cleanup",
    "expired": "expired access",
    "file": "imported changes",
    "off-boarding": "off-boarding",
    "like": "access of a colleague",
    PlanOrigin.REQUEST: "access request",
    PlanOrigin.REVIEW: "access review",
    PlanOrigin.MEMBERS: "members of a group",
}


class PlanItemSequence(Sequence):
    """The items of a plan as a sequence. Positions have no gaps, so all pages cost the same."""

    def __init__(self, plan: Plan):
        self._plan = plan

    def __len__(self) -> int:
        counts = plan_counts(self._plan)
        return change_count(counts) + counts["already"]

    def __getitem__(self, bounds: slice) -> list[PlanItem]:
        return list(
            self._plan.items.filter(position__gt=bounds.start, position__lte=bounds.stop).order_by("position")
        )


class CopyForm(ConsoleForm):
    """A copy of the direct grants of one principal to another."""

    source = PrincipalField(label="From", required=True)
    target = PrincipalField(label="To", required=True)
    within = AddressField(
        label=optional("Limit to namespace"), placeholder="namespace:NAME", widget=NameInput()
    )


class PlanList(FormPage):
    """List the plans, with the form that creates one from a copy."""

    http_method_names = ("get", "head")
    capabilities = (Capability.READ_ALL,)
    form_class = CopyForm
    template_name = "plans/list.html"

    def get_context_data(self, **context) -> dict:
        state = choice_parameter(self.request, "state", PlanState.values)
        rows = Plan.objects.filter(**{"state": state} if state else {}).order_by("-pk")
        page = paginate_sequence(self.request, rows, max_rows=PLANS_PER_PAGE, name="page")
        return super().get_context_data(**context) | {
            "page": page,
            "rows": [_plan_summary(plan) for plan in page.rows],
            "state": state,
            "states": PlanState.values,
            "can_change": self.request.user.can_administer,
        }


def _plan_summary(plan: Plan) -> dict:
    return {"plan": plan, "origin": ORIGIN_LABELS.get(plan.origin, plan.origin), "url": plan_url(plan)}


def plan_url(plan: Plan) -> str:
    return reverse("plan", args=[plan.pk])


def _effects(request: HttpRequest, plan: Plan) -> dict:
    page = paginate_sequence(
        request,
        PrincipalEffects(plan, plan.effect["principals"]),
        max_rows=PRINCIPALS_PER_PAGE,
        name="principals",
    )
    return {"page": page, "rows": [_effect_row(effect) for effect in page.rows]}


def _effect_row(effect: PrincipalEffect) -> dict:
    link = principal_link_from_text(effect.principal)
    return {
        "principal": link if effect.members is None else link.with_members(effect.members),
        "effect": effect,
        "gains": _tally_counts(effect.gains),
        "losses": _tally_counts(effect.losses),
    }


def _tally_counts(tally: Tally) -> list[tuple]:
    """Return (privilege, counts) such as (ADMIN, `3 datasets, 1 stream`), with kinds in the order of the
    vocabulary.
    """
    counts: dict[str, list[str]] = {}
    for kind in KINDS.values():
        for (kind_name, privilege), total in tally.items():
            if kind_name == kind.name:
                counts.setdefault(privilege, []).append(
                    f"{total:,} {kind.title if total == 1 else kind.plural}"
                )
    return [(privilege, ", ".join(counts[privilege])) for privilege in sorted(counts)]


def _items(request: HttpRequest, plan: Plan) -> dict:
    page = paginate_sequence(request, PlanItemSequence(plan), max_rows=ITEMS_PER_PAGE, name="items")
    return {"page": page, "rows": [_item_row(item) for item in page.rows]}


def _item_row(item: PlanItem) -> dict:
    row = {"item": item, "principal": principal_link_from_text(item.principal)}
    if item.verb in GRANT_VERBS:
        return row | {"address_link": address_link_to(item.address), "privilege": item.privilege}
    return row | {"group": principal_link_from_text(item.group) if item.group else None}


# by the id of the section; its template is plans/_<id>.html
SECTIONS: dict[str, Callable[[HttpRequest, Plan], dict | None]] = {
    "permissions": permissions_section,
    "kept_not": kept_not_section,
    "effects": _effects,
    "items": _items,
}


@require_safe
@capability_required(Capability.READ_ALL)
def plan_page(request: HttpRequest, pk: int) -> HttpResponse:
    return render_plan(request, plan_or_404(pk))


def plan_or_404(pk: int) -> Plan:
    plan = Plan.objects.select_related("inverse_of", "renewal_of").filter(pk=pk).first()
    if plan is None:
        raise Http404("there is no such plan")
    return plan


def render_plan(
    request: HttpRequest, plan: Plan, form: ConsoleForm | None = None, *, status: int = 200
) -> HttpResponse:
    """Render the page of a plan, or the one section that htmx requests. form: what was sent, if it was refused."""
    name = requested_section(request)
    if name in SECTIONS:
        return render_page(
            request, f"plans/_{name}.html", {"plan": plan, name: SECTIONS[name](request, plan)}
        )
    line = invalidating_line(plan) if plan.is_proposed else None
    stale = f"This plan is stale. Changed since it was created: {line_summary(line)}." if line else ""
    has_ended = _must_not_end(plan) and plan.items.filter(valid_until__lte=timezone.now()).exists()
    if has_ended and plan.origin == PlanOrigin.REVIEW:
        stale = stale or "A new end in this plan has passed. Renew the plan: it then revokes this access."
    sections = {name: section(request, plan) for name, section in SECTIONS.items()}
    total_stranded = stranded_count(plan)
    stranded = [
        {"address_link": address_link_to(row.address), "admins": row.admin_count}
        for row in stranded_entities(plan, max_rows=MAX_STRANDED)
    ]
    return render_page(
        request,
        "plans/page.html",
        {
            **_plan_summary(plan),
            "figures": list(_figures(plan, total_stranded)),
            "form": form,
            "reason": form["reason"].value() if form else text_parameter(request, "reason"),
            "can_change": request.user.can_administer,
            "second_person": application_fault(request_author(request), plan),
            "ended": has_ended and not stale,
            "stale": stale,
            "can_renew": can_renew(plan),
            "changes": change_count(plan_counts(plan)),
            "change_phrases": list(change_phrases(plan)),
            "periods_removed": plan_counts(plan)["periods_removed"],
            "total_stranded": total_stranded,
            "stranded": stranded,
            "stranded_more": max(0, total_stranded - MAX_STRANDED),
            "activation": activation_of_plan(plan),
            "undo_plan": plan.inverses.order_by("-pk").first(),
            "next_step": _next_step(plan) if plan.state == PlanState.APPLIED else None,
            **sections,
            "to_confirm": confirmation_context(plan, sections["permissions"]) if plan.is_proposed else None,
        },
        status=status,
    )


def _must_not_end(plan: Plan) -> bool:
    """Return whether the plan is refused if one of its periods has ended when it is applied. A plan that
    undoes another one restores them."""
    return plan.is_proposed and plan.origin != PlanOrigin.INVERSE


def stranded_count(plan: Plan) -> int:
    """Return how many entities would have fewer than two active administrators."""
    return plan.effect["stranded_none"] + plan.effect["stranded_one"]


def _next_step(plan: Plan) -> dict | None:
    """Return the next step after applying the plan: a link to check its purpose, or that of the plan that it
    undoes.
    """
    origin_plan = plan.inverse_of or plan
    recipe = origin_plan.recipe
    match origin_plan.origin:
        case "readiness":
            namespace = parse_address(recipe["namespace"])
            return {
                "text": f"Check whether {recipe['user']} can delete {namespace} now",
                "analysis": AnalysisName.DELETE_READINESS,
                "url": f"{entity_url(namespace)}?{urlencode({'deleter': recipe['user']})}#readiness",
                "generation": recipe["generation"],
            }
        case PlanOrigin.CHANGE_SET if "operation" in recipe:
            question = {name: recipe[name] for name in ("subject", "operation", "entity", "generation")}
            return {
                "text": f"Ask again: may {question['subject']} {question['operation']} {question['entity']}?",
                "url": url_with_query("ask", question),
            }
        case AnalysisName.POLICY_IMPACT if origin_plan is plan:
            return {
                "text": f"Activate generation {recipe['to_generation']}",
                "url": reverse("generation-activate", args=[recipe["to_generation"]]),
            }
    return None


CHANGE_NOUNS = {
    "grants": ("grant", "grants"),
    "revokes": ("revocation", "revocations"),
    "joins": ("new membership", "new memberships"),
    "leaves": ("ended membership", "ended memberships"),
    "activations": ("activation", "activations"),
    "deactivations": ("deactivation", "deactivations"),
}


def change_phrases(plan: Plan) -> Iterator[str]:
    """Yield the counts of the changes, such as `3 grants` and `1 deactivation`."""
    for name, total in plan_counts(plan).items():
        if name in CHANGE_NOUNS and total:
            yield f"{total:,} {CHANGE_NOUNS[name][total > 1]}"


# by the name of a count: one and several of what is counted, and what happened or will happen to it
FIGURES = {
    "grants": ("grant", "grants", "added", "to add"),
    "revokes": ("grant", "grants", "revoked", "to revoke"),
    "principals": ("user or group", "users and groups", "affected", "affected"),
    "joins": ("membership", "memberships", "added", "to add"),
    "leaves": ("membership", "memberships", "ended", "to end"),
    "activations": ("user", "users", "activated", "to activate"),
    "deactivations": ("user", "users", "deactivated", "to deactivate"),
    "periods_removed": ("period", "periods", "removed", "to remove"),
    "already": ("item", "items", "already in place", "already in place"),
    "planned": ("address", "addresses", "registered as planned", "registered as planned"),
    "stranded": (
        "entity",
        "entities",
        "with fewer than two administrators",
        "with fewer than two administrators",
    ),
}
ALWAYS_SHOWN = ("grants", "revokes", "principals")
BAD_FIGURES = ("periods_removed", "stranded")


def _figures(plan: Plan, total_stranded: int) -> Iterator[tuple[int, str, str]]:
    """Yield (figure, unit, meaning) of ALWAYS_SHOWN, then of all other figures above zero."""
    counts = plan_counts(plan) | {"stranded": total_stranded}
    for name, (one, several, done, to_do) in FIGURES.items():
        if (figure := counts[name]) or name in ALWAYS_SHOWN:
            words = done if plan.state == PlanState.APPLIED else to_do
            yield figure, f"{one if figure == 1 else several} {words}", "bad" if name in BAD_FIGURES else ""
