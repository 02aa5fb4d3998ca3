"""The sections of the page of a plan: its effect on permissions, what it does not keep, and the activation for which it is
made.
"""

from collections.abc import Mapping
from itertools import islice
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from authzconsole.web.effects.runs import effect_run_context, effect_url
from authzconsole.web.effects.section import DOWNLOAD_TITLES, filter_query, section_context
from authzconsole.web.effects.wording import button_numbers, effect_sentence, sentence_part
from authzconsole.web.shared.links import address_link_to, principal_link_from_text
from authzconsole.web.shared.paging import numbered_page, page_number
from authzconsole.web.shared.parameters import choice_parameter
from entities.address import parse_address
from entities.vocabulary import quantity
from grants.change_set import ActivateGeneration, as_text
from grants.effects.effect import TOO_LARGE, KnownEffect
from grants.effects.large import stored_effect
from grants.errors import EffectTooLarge, PlanError
from grants.models import Plan
from grants.plans.create import PlanOrigin
from grants.plans.permission_effect import (
    generation_of_plan,
    newest_plan_job,
    plan_consequences,
    plan_effect,
)
from grants.plans.regrants.kept_not import kept_not_of_plan
from grants.policies.catalogue import GENERATIONS
from grants.policies.times import format_time

ROWS_PER_PAGE = 25


def permissions_section(request: HttpRequest, plan: Plan) -> dict | None:
    """Return the context of the section; None for a plan without a known effect.

    An applied plan has the effect that it had when it was applied, if the data before it is known.
    """
    generation = choice_parameter(request, "generation", GENERATIONS) or generation_of_plan(plan).name
    effect: KnownEffect | None
    run_context, url = None, reverse("plan", args=[plan.pk])
    try:
        effect = plan_effect(plan, generation)
    except EffectTooLarge as error:
        if not plan.is_proposed:
            return None
        run = newest_plan_job(plan, generation)
        effect = stored_effect(run)
        run_context = effect_run_context(
            request,
            run,
            effect,
            error,
            can_make=request.user.can_administer,
            fields=[("generation", generation)],
            compute_url=reverse("plan-effect", args=[plan.pk]),
            cancel_url=reverse("plan-effect-cancel", args=[plan.pk]),
        )
    except PlanError:
        return None
    section = section_context(
        request, effect, generation=generation, url=url, consequences=plan_consequences(plan)
    )
    downloads = {"downloads": _downloads(plan, generation, section)} if section.get("effect") else {}
    note = "" if plan.is_proposed else "Computed with the data before the plan was applied."
    own = generation_of_plan(plan).name
    other = (
        {"other_generation": own, "other_url": f"{url}?{urlencode({'generation': own})}"}
        if own != generation
        else {}
    )
    return section | downloads | other | {"run": run_context, "plan": plan, "note": note}


def confirmation_context(plan: Plan, section: dict) -> dict:
    """Return what the form that applies the plan says about its effect: the digest, and what must be
    confirmed.

    It is the effect in the generation of the plan. It names this generation if the section shows another one,
    or if it is not the active one.
    """
    effect, own = section.get("whole"), generation_of_plan(plan).name
    if section["generation"] != own:
        try:
            effect = plan_effect(plan)
        except EffectTooLarge:
            effect = stored_effect(newest_plan_job(plan, own))
    if effect is None:
        return {
            "digest": TOO_LARGE,
            "confirmation": "Apply the plan although its effect on permissions is not known",
        }
    gained = effect.max_gained_beyond
    confirmation = (
        f"Also give {quantity(gained, 'permission', 'permissions')} beyond its purpose" if gained else ""
    )
    sentence, numbers = effect_sentence(effect), button_numbers(effect.tally)
    if {section["generation"], section["active"]} != {own}:
        sentence, numbers = (
            f"In {own}, the plan {sentence_part(sentence)}",
            f"{numbers} in {own}" if numbers else "",
        )
    return {"digest": effect.digest, "confirmation": confirmation, "sentence": sentence, "numbers": numbers}


def _downloads(plan: Plan, generation: str, section: dict) -> list[tuple[str, str]]:
    at = {"at": format_time(section["effect"].at)} if section["time"] else {}
    return [
        (
            title,
            reverse(
                f"rest-plan-effect-{extension}",
                args=[plan.pk],
                query={"generation": generation} | at | filter_query(section["where"]),
            ),
        )
        for extension, title in DOWNLOAD_TITLES.items()
    ]


def kept_not_section(request: HttpRequest, plan: Plan) -> dict | None:
    """Return the context of the section; None if the plan kept everything when it was created.

    Only the namespaces of the rows up to the page are read.
    """
    stored = plan.recipe.get("kept_not", 0)
    if not plan.is_proposed or not stored:
        return None
    number = page_number(request, "kept_not")
    first_row = (number - 1) * ROWS_PER_PAGE
    found = list(islice(kept_not_of_plan(plan, first_row), ROWS_PER_PAGE + 1))
    rows = [
        {
            "principal": principal_link_from_text(f"user:{row.user}"),
            "operation": row.operation,
            "why": row.why,
            "address_link": address_link_to(parse_address(row.entity)),
        }
        for row in found[:ROWS_PER_PAGE]
    ]
    page = numbered_page(
        request,
        rows,
        number=number,
        total=max(stored, first_row + len(found)) if found else first_row,
        max_rows=ROWS_PER_PAGE,
        name="kept_not",
    )
    return {
        "page": page,
        "rows": rows,
        "total": stored,
        "before": plan.recipe["generation"],
        "downloads": [
            (title, reverse(f"rest-plan-kept-not-{extension}", args=[plan.pk]))
            for extension, title in DOWNLOAD_TITLES.items()
        ],
    }


def activation_of_plan(plan: Plan) -> dict | None:
    """Return the context of `plans/_activation.html` for a plan; None if it is no plan of regrants."""
    recipe = plan.recipe
    if (
        plan.origin != PlanOrigin.POLICY_IMPACT
        or not {recipe["generation"], recipe["to_generation"]} <= GENERATIONS.keys()
    ):
        return None
    return activation_context(
        recipe["generation"], recipe["to_generation"], recipe.get("activation"), has_plan=True
    )


def activation_context(
    before: str, after: str, counts: Mapping[str, int] | None, *, has_plan: bool = False
) -> dict:
    """Return the context of `plans/_activation.html`.

    before, after: names of generations. counts: `Regrants.activation`; None if it is not known, as for plans
    of older versions.
    has_plan: whether the counts with the plan are those of one plan.
    """
    query = urlencode({"generation": before, "effect_change": "gained"})
    context = {
        "after": after,
        "list_url": f"{effect_url([as_text(ActivateGeneration(GENERATIONS[after]))])}&{query}",
    }
    if counts is None:
        return context | {
            "sentence": f"Activating `{after}` may itself give permissions that `{before}` denies."
        }
    sentence = (
        f"Activating `{after}` itself gives {quantity(counts['given'], 'permission', 'permissions')} that `{before}` "
        f"denies, and takes {counts['taken']:,}."
    )
    if has_plan:
        sentence += f" With this plan, it gives {counts['given_with_plan']:,} and takes {counts['taken_with_plan']:,}."
    return context | {"sentence": sentence, "given": counts["given"]}
