"""Can this namespace be deleted: the immediate answer for one person, and what Spark last found for everybody."""

from urllib.parse import urlencode

from django.http import HttpRequest

from analytics.analyses import AnalysisName
from analytics.runs.selectors import latest_run
from authzconsole.web.ask.answers import MOST_GAPS, missing_grant_of
from authzconsole.web.reports.readiness_report import quoted_summaries
from authzconsole.web.shared.links import address_url
from authzconsole.web.shared.parameters import name_parameter
from authzconsole.web.shared.principal_input import name_from_input
from entities.models import Entity
from grants.journal import decision_changes_after
from grants.lifecycle.readiness import Readiness, namespace_readiness
from grants.models import User
from grants.policies.policy import Generation


def readiness_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict | None:
    """None where the entity is no live namespace, and for ordinary accounts: it counts what they may not see."""
    if entity.kind != "namespace" or not entity.is_live or not request.user.can_see_all:
        return None
    name = name_from_input(name_parameter(request, "deleter"), "user")
    user = User.objects.filter(username=name).first() if name else None
    latest = latest_of(entity.key, generation)
    return {
        "deleter": name, "fault": f"There is no user `{name}`." if name and user is None else "",
        "answer": _answer(request, entity, user, generation) if user else None, "generation": generation.name,
        "namespace": entity.key, "analysis": AnalysisName.DELETE_READINESS, "latest": latest,
        "can_start": request.user.can_administer,
        "nearest": None if user or latest is None else _nearest_now(entity, latest, generation),
    }


def _nearest_now(entity: Entity, latest: dict, generation: Generation) -> Readiness | None:
    """What whom the report calls closest holds and lacks by now; None where it names nobody, or nothing
    changed since."""
    summary = latest["summary"] or {}
    is_open = bool(latest["changes_since"]) and not summary.get("users_ready") and summary.get("nearest_user")
    user = User.objects.filter(username=summary["nearest_user"], is_active=True).first() if is_open else None
    return None if user is None else namespace_readiness(entity.address, user, generation, most=0)


def _answer(request, entity: Entity, user: User, generation: Generation) -> dict:
    readiness = namespace_readiness(entity.address, user, generation, most=MOST_GAPS)
    principal = f"user:{user.username}"
    return {
        "forecast_url": f"{address_url('forecast', entity)}?{urlencode({'deleter': user.username})}",
        "ready": readiness.ready and user.is_active, "sentence": _sentence(user, readiness, generation),
        "missing": [missing_grant_of(gap, principal, request.user) for gap in readiness.missing[:MOST_GAPS]],
        "missing_more": max(0, readiness.missing_total - MOST_GAPS), "missing_total": readiness.missing_total,
    }


def _sentence(user: User, readiness: Readiness, generation: Generation) -> str:
    if not user.is_active:
        return f"{user.username} cannot delete it: the account is inactive, and denied everything."
    verdict = "can delete it" if readiness.ready else "cannot delete it yet"
    entities = "entity" if readiness.required == 1 else "entities"
    return (f"{user.username} {verdict}: generation `{generation.name}` asks for ADMIN on {readiness.required:,} "
            f"{entities}, and {readiness.held:,} {'is' if readiness.held == 1 else 'are'} held.")


def latest_of(namespace: str, generation: Generation) -> dict | None:
    """The newest report of this generation on the namespace, what it says, and how many changes came after it."""
    run = latest_run(AnalysisName.DELETE_READINESS, namespace=namespace, generation=generation.name)
    if run is None:
        return None
    summaries, fault = quoted_summaries(run, [namespace])
    return {"run": run, "summary": summaries.get(namespace), "fault": fault,
            "changes_since": decision_changes_after(run.revision)}
