"""The section of a plan that shows its effect on permissions: totals, the most affected people and entities, and every change."""

from django.http import HttpRequest
from django.urls import reverse

from authzconsole.web.plans.change_effect import effect_sentence
from authzconsole.web.shared.links import address_link_to, principal_link_from_text
from authzconsole.web.shared.paging import numbered_page, page_number
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from entities.address import parse_address
from entities.vocabulary import quantity
from grants.active_generation import active_generation
from grants.effects.effect import EffectRow, RowFilter, Tally
from grants.errors import EffectTooLarge
from grants.models import Plan
from grants.plans.permission_effect import TOO_LARGE, generation_of_plan, plan_effect
from grants.policies.catalogue import GENERATIONS

ROWS_PER_PAGE = 50
MAX_TOP = 8
PURPOSES = {"for": "Purpose of the plan", "beyond": "Beyond its purpose"}
CHANGES = {"gained": "Gained", "lost": "Lost"}
DOWNLOAD_TITLES = {"csv": "CSV", "jsonl": "JSON Lines"}


def permissions_section(request: HttpRequest, plan: Plan) -> dict | None:
    """Return the context of the section; None for a plan that was discarded or applied."""
    if not plan.is_proposed:
        return None
    generation = choice_parameter(request, "generation", GENERATIONS) or generation_of_plan(plan).name
    context = {"generation": generation, "generations": list(GENERATIONS), "active": active_generation().name, "plan": plan}
    try:
        effect = plan_effect(plan, generation)
    except EffectTooLarge as error:
        return context | {"fault": f"{error}."}
    where = _filter(request)
    total = effect.row_count(where)
    number = min(page_number(request, "changes"), max(1, -(-total // ROWS_PER_PAGE)))
    rows = effect.rows(where, (number - 1) * ROWS_PER_PAGE)
    page = numbered_page(request, [_row(row) for row, _ in zip(rows, range(ROWS_PER_PAGE), strict=False)], number=number,
                         total=total, max_rows=ROWS_PER_PAGE, name="changes")
    return context | {
        "effect": effect, "tally": effect.tally, "page": page, "where": where, "is_filtered": where != RowFilter(),
        "operations": sorted({cell.operation for cell in effect.cells}), "purposes": PURPOSES.items(), "changes": CHANGES.items(),
        "people": [(principal_link_from_text(f"user:{name}"), tally_phrases(tally)) for name, tally in effect.people[:MAX_TOP]],
        "people_more": max(0, len(effect.people) - MAX_TOP),
        "entities": [(address_link_to(address), tally_phrases(tally)) for address, tally in effect.entities[:MAX_TOP]],
        "entities_more": max(0, len(effect.entities) - MAX_TOP), "downloads": _downloads(plan, generation, where),
        "url": reverse("plan", args=[plan.pk]), "sentence": effect_sentence(effect),
    }


def apply_review(plan: Plan, section: dict) -> dict:
    """Return what the form that applies the plan says about its effect: the digest, and what must be confirmed."""
    effect = section.get("effect")
    if section["generation"] != generation_of_plan(plan).name:
        try:
            effect = plan_effect(plan)
        except EffectTooLarge:
            effect = None
    if effect is None:
        return {"digest": TOO_LARGE, "confirmation": "Apply the plan although its effect on permissions is not known"}
    gained = effect.tally.gained_beyond
    confirmation = f"Also give {quantity(gained, 'permission', 'permissions')} beyond its purpose" if gained else ""
    return {"digest": effect.digest, "confirmation": confirmation, "sentence": effect_sentence(effect),
            "numbers": _numbers(effect.tally)}


def _numbers(tally: Tally) -> str:
    """Return a text for the button, such as `: 8 permissions gained, 1 lost`; empty if no permission changes."""
    gained, lost = tally.gained_for + tally.gained_beyond, tally.lost_for + tally.lost_beyond
    parts = [f"{quantity(gained, 'permission', 'permissions')} gained" if gained else "",
             f"{f'{lost:,}' if gained else quantity(lost, 'permission', 'permissions')} lost" if lost else ""]
    return f": {', '.join(filter(None, parts))}" if any(parts) else ""


def tally_phrases(tally: Tally) -> str:
    """Return a text such as `gains 8, loses 1; beyond: gains 4`."""
    intended = [f"gains {tally.gained_for:,}" if tally.gained_for else "", f"loses {tally.lost_for:,}" if tally.lost_for else ""]
    beyond = [f"gains {tally.gained_beyond:,}" if tally.gained_beyond else "",
              f"loses {tally.lost_beyond:,}" if tally.lost_beyond else ""]
    parts = [", ".join(filter(None, intended)), f"beyond: {', '.join(filter(None, beyond))}" if any(beyond) else ""]
    return "; ".join(filter(None, parts))


def _filter(request: HttpRequest) -> RowFilter:
    return RowFilter(
        user=text_parameter(request, "effect_user"), entity=text_parameter(request, "effect_entity"),
        operation=text_parameter(request, "effect_operation"), change=choice_parameter(request, "effect_change", CHANGES),
        purpose=choice_parameter(request, "effect_purpose", PURPOSES))


def _row(row: EffectRow) -> dict:
    return {"row": row, "principal": principal_link_from_text(f"user:{row.user}"),
            "address_link": address_link_to(parse_address(row.entity))}


def _downloads(plan: Plan, generation: str, where: RowFilter) -> list[tuple[str, str]]:
    filters = {name: value for name, value in (("user", where.user), ("entity", where.entity), ("operation", where.operation),
                                               ("change", where.change), ("purpose", where.purpose)) if value}
    return [(title, reverse(f"rest-plan-effect-{extension}", args=[plan.pk], query={"generation": generation} | filters))
            for extension, title in DOWNLOAD_TITLES.items()]
