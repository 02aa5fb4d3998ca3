"""The section "Can it be deleted?" of a namespace: the current answer for one user, and the newest report for
all users.
"""

from urllib.parse import urlencode

from django.http import HttpRequest

from analytics.analyses import AnalysisName
from analytics.runs.selectors import changes_since, latest_run
from authzconsole.web.ask.answers import MAX_MISSING_GRANTS, missing_grant_row
from authzconsole.web.reports.results import summaries_or_fault
from authzconsole.web.shared.links import address_url
from authzconsole.web.shared.parameters import name_parameter
from authzconsole.web.shared.principal_input import name_from_input
from entities.models import Entity
from entities.vocabulary import quantity
from grants.lifecycle.readiness import Readiness, namespace_readiness
from grants.models import User
from grants.policies.policy import Generation
from grants.roles.capabilities import Capability


def readiness_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict | None:
    """Return the section; None if the entity is not a live namespace, or if the account must not see its
    counts.
    """
    can_read = request.user.can_see_all and request.user.can(Capability.READ_REPORTS)
    if entity.kind != "namespace" or not entity.is_live or not can_read:
        return None
    name = name_from_input(name_parameter(request, "deleter"), "user")
    user = User.objects.filter(username=name).first() if name else None
    latest = latest_report(entity.key, generation)
    return {
        "deleter": name,
        "fault": f"No user named {name}." if name and user is None else "",
        "answer": _current_answer(request, entity, user, generation) if user else None,
        "generation": generation.name,
        "namespace": entity.key,
        "analysis": AnalysisName.DELETE_READINESS,
        "latest": latest,
        "can_start": request.user.can(Capability.RUN_ANALYSES),
        "nearest": None if user or latest is None else _closest_user_now(entity, latest, generation),
    }


def _closest_user_now(entity: Entity, latest: dict, generation: Generation) -> Readiness | None:
    """Return the current readiness of the closest user of the report; None if the report names no user or is
    up to date.
    """
    summary = latest["summary"] or {}
    is_outdated = (
        bool(latest["changes_since"]) and not summary.get("users_ready") and summary.get("nearest_user")
    )
    user = (
        User.objects.filter(username=summary["nearest_user"], is_active=True).first() if is_outdated else None
    )
    return None if user is None else namespace_readiness(entity.address, user, generation, max_listed=0)


def _current_answer(request: HttpRequest, entity: Entity, user: User, generation: Generation) -> dict:
    readiness = namespace_readiness(entity.address, user, generation, max_listed=MAX_MISSING_GRANTS)
    principal = f"user:{user.username}"
    return {
        "forecast_url": f"{address_url('forecast', entity)}?{urlencode({'deleter': user.username})}",
        "ready": readiness.is_ready and user.is_active,
        "sentence": _sentence(user, readiness, generation),
        "missing": [
            missing_grant_row(grant, principal, request.user)
            for grant in readiness.missing_grants[:MAX_MISSING_GRANTS]
        ],
        "missing_more": max(0, readiness.missing_count - MAX_MISSING_GRANTS),
        "missing_total": readiness.missing_count,
    }


def _sentence(user: User, readiness: Readiness, generation: Generation) -> str:
    if not user.is_active:
        return f"{user.username} cannot delete it: the account is inactive and denied everything."
    outcome = "can delete it" if readiness.is_ready else "cannot delete it yet"
    entities = quantity(readiness.required_count, "entity", "entities")
    return (
        f"{user.username} {outcome}: generation `{generation.name}` requires ADMIN on {entities}, and "
        f"{readiness.held_count:,} {'is' if readiness.held_count == 1 else 'are'} held."
    )


def latest_report(namespace: str, generation: Generation) -> dict | None:
    """Return the newest report on the namespace in this generation, with the number of changes since then."""
    run = latest_run(AnalysisName.DELETE_READINESS, namespace=namespace, generation=generation.name)
    if run is None:
        return None
    summaries, fault = summaries_or_fault(run, [namespace])
    return {
        "run": run,
        "summary": summaries.get(namespace),
        "fault": fault,
        "changes_since": changes_since(run),
    }
