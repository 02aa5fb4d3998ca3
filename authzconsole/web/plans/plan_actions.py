"""The forms that apply, discard, undo and renew a plan, and that create one from a copy."""

from collections.abc import Callable
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from analytics.plan_effects.stored import computed_effect, latest_plan_run
from analytics.runs.services import cancel_run, request_plan_effect
from authzconsole.web.plans.plan_pages import (
    change_phrases,
    plan_or_404,
    plan_url,
    render_plan,
    render_plan_list,
    stranded_count,
)
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.principal_input import principal_from_input
from authzconsole.web.shared.rendering import see_other
from entities.address import AddressError, parse_address
from grants.errors import EffectChanged, GrantError, StaleBase
from grants.journal import Author
from grants.models import Plan
from grants.plans.apply import EffectConfirmation, apply_plan, create_inverse_plan, discard_plan
from grants.plans.permission_effect import generation_of_plan
from grants.plans.renew import renew_plan
from grants.plans.sources.copy import create_plan_from_copy
from grants.policies.catalogue import GENERATIONS
from grants.roles.capabilities import Capability

UNCONFIRMED = (
    "Nothing was changed. Confirm that entities will have fewer than two administrators, or discard the plan."
)


@require_POST
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def apply_plan_view(request: HttpRequest, pk: int) -> HttpResponse:
    plan, reason = plan_or_404(pk), request.POST.get("reason", "").strip()
    if plan.is_proposed and stranded_count(plan) and request.POST.get("strand") != "yes":
        return render_plan(request, plan, reason=reason, fault=UNCONFIRMED, status=400)
    try:
        confirmation = EffectConfirmation(
            request.POST.get("effect") or None,
            confirms_beyond=request.POST.get("beyond") == "yes",
            computed=computed_effect,
        )
        applied = apply_plan(author=request_author(request, reason), plan_id=pk, confirmation=confirmation)
    except StaleBase:
        # the page shows what changed since the plan was created
        return render_plan(request, plan, reason=reason, status=409)
    except EffectChanged as error:
        return render_plan(request, plan, fault=f"Nothing was changed: {error}.", reason=reason, status=409)
    except GrantError as error:
        return render_plan(
            request, plan_or_404(pk), fault=f"Nothing was changed: {error}.", reason=reason, status=400
        )
    messages.success(request, f"Plan {applied.pk} is applied: {_change_summary(applied)}.")
    return see_other(plan_url(applied))


def _change_summary(plan: Plan) -> str:
    return ", ".join(change_phrases(plan)) or "all items were already in place, and nothing changed"


@require_POST
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def discard_plan_view(request: HttpRequest, pk: int) -> HttpResponse:
    return _perform(
        request, pk, lambda author: discard_plan(author=author, plan_id=pk), "Plan {0.pk} is discarded."
    )


@require_POST
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def undo_plan_view(request: HttpRequest, pk: int) -> HttpResponse:
    return _perform(
        request,
        pk,
        lambda author: create_inverse_plan(author=author, plan_id=pk),
        "This plan reverts the changes of plan {0.inverse_of_id}. Nothing changes until you apply it.",
    )


@require_POST
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def renew_plan_view(request: HttpRequest, pk: int) -> HttpResponse:
    """Replace a stale plan. The reason that was entered for it is prefilled for the new plan."""
    return _perform(
        request,
        pk,
        lambda author: renew_plan(author=author, plan_id=pk),
        "This plan was renewed from the current grants. Review it before you apply it.",
        reason=request.POST.get("reason", "").strip(),
    )


@require_POST
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def compute_plan_effect_view(request: HttpRequest, pk: int) -> HttpResponse:
    """Request the run that computes the effect of a plan above the limits."""
    plan, generation = plan_or_404(pk), request.POST.get("generation", "")
    try:
        request_plan_effect(
            plan=plan,
            generation=generation if generation in GENERATIONS else "",
            author=request_author(request),
            requested_by=request.user,
        )
    except GrantError as error:
        return render_plan(request, plan, fault=f"{error}.", status=400)
    return see_other(
        f"{plan_url(plan)}?{urlencode({'generation': generation})}#permissions"
        if generation
        else plan_url(plan)
    )


@require_POST
@capability_required(Capability.RUN_ANALYSES, visible_to=[Capability.READ_ALL])
def cancel_plan_effect_view(request: HttpRequest, pk: int) -> HttpResponse:
    """Cancel the run that computes the effect of a plan."""
    plan, generation = plan_or_404(pk), request.POST.get("generation", "")
    if generation not in GENERATIONS:
        generation = generation_of_plan(plan).name
    run = latest_plan_run(plan, generation)
    if run is not None and cancel_run(run=run, author=request_author(request)):
        messages.info(request, "The computation of the effect is being cancelled.")
    else:
        messages.info(request, "The effect is not being computed. Nothing changed.")
    return see_other(f"{plan_url(plan)}?{urlencode({'generation': generation})}#permissions")


def _perform(
    request: HttpRequest, pk: int, action: Callable[[Author], Plan], message: str, *, reason: str = ""
) -> HttpResponse:
    """Run the action and redirect to the page of the plan that it returns. message: formatted with that plan."""
    plan = plan_or_404(pk)
    try:
        result = action(request_author(request))
    except (GrantError, AddressError) as error:
        return render_plan(request, plan, fault=f"{error}.", reason=reason, status=400)
    messages.success(request, message.format(result))
    return see_other(f"{plan_url(result)}?{urlencode({'reason': reason})}" if reason else plan_url(result))


@require_POST
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def new_plan_from_copy(request: HttpRequest) -> HttpResponse:
    """Create a plan that copies the direct grants of one principal to another."""
    form = {name: principal_from_input(request.POST.get(name, "")) for name in ("source", "target")}
    form["within"] = request.POST.get("within", "").strip()
    try:
        within = parse_address(form["within"]) if form["within"] else None
        plan = create_plan_from_copy(
            author=request_author(request), source=form["source"], target=form["target"], within=within
        )
    except (GrantError, AddressError) as error:
        return render_plan_list(request, form, fault=f"{error}.", status=400)
    return see_other(plan_url(plan))
