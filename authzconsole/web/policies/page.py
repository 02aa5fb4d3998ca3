"""The policies of one generation or of two side by side, and the form that activates a generation."""

from collections.abc import Iterator

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from analytics.analyses import AnalysisName
from analytics.models import AnalysisRun, RunState
from authzconsole.web.shared.guard import administrator_required, request_author
from authzconsole.web.shared.paging import url_with
from authzconsole.web.shared.parameters import choice_parameter
from authzconsole.web.shared.rendering import render_page, see_other
from entities.vocabulary import KINDS, Kind
from grants.active_generation import activate_generation, active_generation
from grants.errors import GrantError
from grants.journal import decision_changes_after, lock_journal
from grants.policies.catalogue import GENERATIONS
from grants.policies.policy import Generation, Policy
from grants.policies.question import Question
from grants.policies.wording import requirement_in_words


def row_id(kind: str, operation: str) -> str:
    """Return the HTML id of the row of an operation."""
    return f"{kind}-{operation}"


def row_url(question: Question) -> str:
    """Return the URL of the policy that decides a question; empty if there is none, for example for a bare privilege."""
    target = question.target
    if target is None or question.policy is None or question.operation not in KINDS[target.kind].operations:
        return ""
    return f"{reverse('policies')}?generation={question.generation}#{row_id(target.kind, question.operation)}"


@require_safe
def policies_page(request: HttpRequest) -> HttpResponse:
    """Show one generation, or two side by side. All accounts see the same page."""
    active = active_generation()
    chosen = GENERATIONS[choice_parameter(request, "generation", GENERATIONS) or active.name]
    other = GENERATIONS.get(choice_parameter(request, "with", GENERATIONS))
    other = None if other == chosen else other
    kind, only_differences = choice_parameter(request, "kind", KINDS), bool(other and request.GET.get("only") == "differences")
    tables = [_table(KINDS[name], chosen, other, only_differences=only_differences) for name in ([kind] if kind else KINDS)]
    return render_page(request, "policies/page.html", {
        "active": active, "chosen": chosen, "other": other, "kind": kind, "only_differences": only_differences,
        "tables": [table for table in tables if table["rows"]], "lifecycle": [_lifecycle(one) for one in (chosen, other) if one],
        "differences": sum(table["differences"] for table in tables),
        "generations": [_chip(request, "generation", one.name, one.name, one == chosen) for one in GENERATIONS.values()],
        "others": [_chip(request, "with", "", "none", other is None),
                   *(_chip(request, "with", one.name, one.name, one == other) for one in GENERATIONS.values() if one != chosen)],
        "kinds": [_chip(request, "kind", "", "All", not kind),
                  *(_chip(request, "kind", one.name, one.plural, one.name == kind) for one in KINDS.values() if one.operations)],
        "only_url": url_with(request, only=None if only_differences else "differences"), "url": reverse("policies"),
        "can_activate": [one for one in (chosen, other) if one and one != active] if request.user.can_administer else [],
    })


def _chip(request: HttpRequest, name: str, value: str, title: str, is_current: bool) -> dict:
    return {"title": title, "url": url_with(request, **{name: value or None}), "is_current": is_current}


def _lifecycle(generation: Generation) -> dict:
    return {"generation": generation, "source": generation.lifecycle_source,
            "creator": ", ".join(generation.creator_receives) or "nothing",
            "deleting": "removed" if generation.deleting_removes_grants else "kept"}


def _table(kind: Kind, chosen: Generation, other: Generation | None, *, only_differences: bool) -> dict:
    rows = list(_rows(kind, chosen, other))
    return {"kind": kind, "title": kind.plural.capitalize(), "differences": sum(row["differs"] for row in rows),
            "rows": [row for row in rows if row["differs"] or not only_differences]}


def _rows(kind: Kind, chosen: Generation, other: Generation | None) -> Iterator[dict]:
    for operation in kind.operations:
        policy, other_policy = chosen.policy(kind.name, operation), other.policy(kind.name, operation) if other else None
        yield {"operation": operation, "id": row_id(kind.name, operation),
               "cells": [_cell(one) for one in (policy, other_policy) if one],
               "differs": other_policy is not None and policy.requirement != other_policy.requirement}


def _cell(policy: Policy) -> dict:
    words = requirement_in_words(policy.requirement) if policy.has_rule else ""
    return {"policy": policy, "source": policy.source, "words": words}


@require_http_methods(["GET", "HEAD", "POST"])
@administrator_required
def activate_generation_page(request: HttpRequest, name: str) -> HttpResponse:
    """Show the impact of activating a generation, and activate it."""
    if name not in GENERATIONS:
        raise Http404("there is no such generation")
    if request.method != "POST":
        return _change_page(request, GENERATIONS[name])
    reason = request.POST.get("reason", "").strip()
    try:
        outcome = _activate(request, name, reason)
    except GrantError as error:
        return _change_page(request, GENERATIONS[name], reason=reason, fault=f"{error}.", status=400)
    if outcome is None:
        fault = "Nothing was changed: another generation was activated in the meantime. Review the new comparison."
        return _change_page(request, GENERATIONS[name], reason=reason, fault=fault, status=409)
    messages.add_message(request, messages.SUCCESS if outcome.has_changed else messages.INFO, f"{outcome.sentence}.")
    return see_other(reverse("policies"))


def _activate(request: HttpRequest, name: str, reason: str):
    """Return None, without a change, if the active generation is not the one that the form showed."""
    with transaction.atomic():
        lock_journal()
        if request.POST.get("from") != active_generation().name:
            return None
        return activate_generation(author=request_author(request, reason), name=name)


def _change_page(request: HttpRequest, to: Generation, *, reason: str = "", fault: str = "", status: int = 200) -> HttpResponse:
    active = active_generation()
    run = _impact_run(active, to)
    differences = sum(_table(kind, active, to, only_differences=True)["differences"] for kind in KINDS.values())
    return render_page(request, "policies/activate.html", {
        "active": active, "to": to, "reason": reason, "fault": fault, "run": run,
        "impact_analysis": AnalysisName.POLICY_IMPACT, "differences": differences,
        "is_active": active == to, "is_done": run is not None and run.state == RunState.DONE,
        "changes_since": decision_changes_after(run.revision) if run else 0,
        "lifecycle": [_lifecycle(active), _lifecycle(to)],
        "compare_url": f"{reverse('policies')}?generation={active.name}&with={to.name}&only=differences",
    }, status=status)


def _impact_run(active: Generation, to: Generation) -> AnalysisRun | None:
    """Return the newest finished run that compares the two in this order, or else the newest waiting or running one."""
    runs = AnalysisRun.objects.filter(
        analysis=AnalysisName.POLICY_IMPACT, options__generation=active.name, options__to_generation=to.name)
    finished = runs.filter(state=RunState.DONE).order_by("-requested_at", "-pk").first()
    return finished or runs.filter(state__in=(RunState.WAITING, RunState.RUNNING)).order_by("-requested_at", "-pk").first()
