"""The forms that apply, discard, undo and renew a plan, and that create one from a copy, a forecast or a report."""

from collections.abc import Callable
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from analytics.analyses import AnalysisError
from analytics.regrant_plans import create_regrant_plan
from analytics.storage import StorageError
from authzconsole.web.plans.plan_pages import change_phrases, plan_or_404, plan_url, render_plan, render_plan_list, stranded_count
from authzconsole.web.reports.run_details import run_or_404
from authzconsole.web.shared.guard import administrator_required, request_author
from authzconsole.web.shared.principal_input import name_from_input, principal_from_input
from authzconsole.web.shared.rendering import see_other
from entities.address import AddressError, parse_address
from grants.errors import EffectChanged, GrantError, StaleBase
from grants.journal import Author
from grants.models import Plan
from grants.plans.apply import EffectReview, apply_plan, create_inverse_plan, discard_plan
from grants.plans.regrants.compute import Prefer
from grants.plans.renew import renew_plan
from grants.plans.sources.copy import create_plan_from_copy
from grants.plans.sources.readiness import create_readiness_plan
from grants.policies.catalogue import UnknownGeneration

UNCONFIRMED = "Nothing was changed. Confirm that entities will have fewer than two administrators, or discard the plan."


@require_POST
@administrator_required
def apply_plan_view(request: HttpRequest, pk: int) -> HttpResponse:
    plan, reason = plan_or_404(pk), request.POST.get("reason", "").strip()
    if plan.is_proposed and stranded_count(plan) and request.POST.get("strand") != "yes":
        return render_plan(request, plan, reason=reason, fault=UNCONFIRMED, status=400)
    try:
        review = EffectReview(request.POST.get("effect") or None, confirms_beyond=request.POST.get("beyond") == "yes")
        applied = apply_plan(author=request_author(request, reason), plan_id=pk, review=review)
    except StaleBase:
        # the page shows what changed since the plan was created
        return render_plan(request, plan, reason=reason, status=409)
    except EffectChanged as error:
        return render_plan(request, plan, fault=f"Nothing was changed: {error}.", reason=reason, status=409)
    except GrantError as error:
        return render_plan(request, plan_or_404(pk), fault=f"Nothing was changed: {error}.", reason=reason, status=400)
    messages.success(request, f"Plan {applied.pk} is applied: {_change_summary(applied)}.")
    return see_other(plan_url(applied))


def _change_summary(plan: Plan) -> str:
    return ", ".join(change_phrases(plan)) or "all items were already in place, and nothing changed"


@require_POST
@administrator_required
def discard_plan_view(request: HttpRequest, pk: int) -> HttpResponse:
    return _perform(request, pk, lambda author: discard_plan(author=author, plan_id=pk), "Plan {0.pk} is discarded.")


@require_POST
@administrator_required
def undo_plan_view(request: HttpRequest, pk: int) -> HttpResponse:
    return _perform(request, pk, lambda author: create_inverse_plan(author=author, plan_id=pk),
                    "This plan reverts the changes of plan {0.inverse_of_id}. Nothing changes until you apply it.")


@require_POST
@administrator_required
def renew_plan_view(request: HttpRequest, pk: int) -> HttpResponse:
    """Replace a stale plan. The reason that was entered for it is prefilled for the new plan."""
    return _perform(request, pk, lambda author: renew_plan(author=author, plan_id=pk),
                    "This plan was renewed from the current grants. Review it before you apply it.",
                    reason=request.POST.get("reason", "").strip())


def _perform(request: HttpRequest, pk: int, action: Callable[[Author], Plan], message: str, *, reason: str = "") -> HttpResponse:
    """Run the action and redirect to the page of the plan that it returns. message: formatted with that plan."""
    plan = plan_or_404(pk)
    try:
        result = action(request_author(request))
    except (GrantError, AddressError) as error:
        return render_plan(request, plan, fault=f"{error}.", reason=reason, status=400)
    messages.success(request, message.format(result))
    return see_other(f"{plan_url(result)}?{urlencode({'reason': reason})}" if reason else plan_url(result))


@require_POST
@administrator_required
def new_plan_from_readiness(request: HttpRequest) -> HttpResponse:
    """Create a plan with the missing grants that let a user delete a namespace."""
    form = {name: request.POST.get(name, "").strip() for name in ("namespace", "generation")}
    user = name_from_input(request.POST.get("user", ""), "user")
    principal = principal_from_input(request.POST.get("principal", ""))
    try:
        plan = create_readiness_plan(author=request_author(request), namespace=parse_address(form["namespace"]), user=user,
                                     generation=form["generation"] or None, principal=principal)
    except (GrantError, AddressError, UnknownGeneration) as error:
        messages.error(request, f"{error}.")
        return see_other(reverse("plans"))
    return see_other(plan_url(plan))


@require_POST
@administrator_required
def new_plan_from_impact(request: HttpRequest, pk: int) -> HttpResponse:
    """Create a plan that keeps the permissions that a policy-impact report lists as lost."""
    run = run_or_404(pk)
    scope = {name: name_from_input(request.POST.get(name, ""), name) for name in ("user", "group")}
    scope["namespace"] = request.POST.get("namespace", "").strip()
    scope["prefer"] = Prefer.FEWEST if request.POST.get("prefer") == Prefer.FEWEST else Prefer.NARROWEST
    try:
        plan = create_regrant_plan(author=request_author(request), run=run, **scope)
    except (GrantError, AnalysisError, StorageError) as error:
        messages.error(request, f"No plan was created: {error}.")
        return see_other(reverse("analysis", args=[run.pk]))
    return see_other(plan_url(plan))


@require_POST
@administrator_required
def new_plan_from_copy(request: HttpRequest) -> HttpResponse:
    """Create a plan that copies the direct grants of one principal to another."""
    form = {name: principal_from_input(request.POST.get(name, "")) for name in ("source", "target")}
    form["within"] = request.POST.get("within", "").strip()
    try:
        within = parse_address(form["within"]) if form["within"] else None
        plan = create_plan_from_copy(author=request_author(request), source=form["source"], target=form["target"],
                                     within=within)
    except (GrantError, AddressError) as error:
        return render_plan_list(request, form, fault=f"{error}.", status=400)
    return see_other(plan_url(plan))
