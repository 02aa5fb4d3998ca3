"""Who can delete a namespace: the section of a namespace with the current answer for one user and the newest report
for all users, and the parts of a delete-readiness report beside its table.
"""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from analytics.analyses import AnalysisName
from analytics.models import AnalysisRun
from analytics.results.query import ResultFilter
from analytics.results.read import result_page
from analytics.runs.selectors import changes_since, latest_run
from authzconsole.web.ask.answers import MAX_MISSING_GRANTS
from authzconsole.web.reports.results import (
    REPORT_ERRORS,
    read_page,
    report_fault,
    run_or_404,
    summaries_or_fault,
)
from authzconsole.web.reports.table import ROWS_PER_PAGE, download_urls
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.links import address_url
from authzconsole.web.shared.paging import numbered_page, page_number
from authzconsole.web.shared.parameters import name_parameter
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.rendering import render_page, see_other
from entities.address import Address
from entities.models import Entity
from entities.vocabulary import quantity
from grants.lifecycle import Readiness, namespace_readiness
from grants.models import JobState, User
from grants.plans.apply import applied_plan
from grants.plans.create import PlanOrigin
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
        "nearest": _closest_user_now(entity, latest, generation) if latest else None,
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
    return {
        "forecast_url": f"{address_url('forecast', entity)}?{urlencode({'deleter': user.username})}",
        "ready": readiness.is_ready and user.is_active,
        "sentence": _sentence(user, readiness, generation),
        "principal": f"user:{user.username}",
        "missing": readiness.missing_grants[:MAX_MISSING_GRANTS],
        "missing_more": max(0, readiness.missing_count - MAX_MISSING_GRANTS),
        "missing_total": readiness.missing_count,
        "plan": applied_plan(PlanOrigin.READINESS, namespace=str(entity.address), user=user.username),
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


NAMESPACES_PER_PAGE = 25
MAX_NAMES = 3


def namespaces_section(request: HttpRequest, run: AnalysisRun) -> dict:
    result, number = read_page(
        run,
        "namespaces",
        number=page_number(request, "namespaces"),
        max_rows=NAMESPACES_PER_PAGE,
        sort="nobody_can_delete",
        descending=True,
    )
    names = _ready_names(run, [row["namespace"] for row in result.rows if row["users_ready"]])
    for row in result.rows:
        row |= {
            "held": row["required"] - row["fewest_missing"] if row["fewest_missing"] is not None else 0,
            "ready_users": names.get(row["namespace"], [])[:MAX_NAMES],
            "ready_users_more": max(0, row["users_ready"] - MAX_NAMES),
        }
    return {
        "page": numbered_page(
            request,
            result.rows,
            number=number,
            total=result.total_rows,
            max_rows=NAMESPACES_PER_PAGE,
            name="namespaces",
        ),
        "downloads": download_urls(run, "namespaces"),
    }


def _ready_names(run: AnalysisRun, namespaces: list[str]) -> dict[str, list[str]]:
    """Return the users who can delete each of these namespaces, at most 1,000 in total."""
    if not namespaces:
        return {}
    where = ResultFilter(equal={"ready": True}, among={"namespace": namespaces})
    names: dict[str, list[str]] = {}
    for row in result_page(run, where=where, max_rows=1_000).rows:
        names.setdefault(row["namespace"], []).append(row["user"])
    return names


@require_safe
@capability_required(Capability.READ_REPORTS)
def missing_grants_page(request: HttpRequest, pk: int) -> HttpResponse:
    """List the entities of a namespace on which the user needs ADMIN but does not hold it."""
    run = run_or_404(pk)
    namespace, user = name_parameter(request, "namespace"), name_parameter(request, "user")
    if run.state != JobState.DONE:
        return see_other(reverse("analysis", args=[run.pk]))
    context = {
        "run": run,
        "namespace": Address("namespace", namespace),
        "user": user,
        "forecast_query": urlencode({"deleter": user, "generation": run.options.get("generation", "")}),
        "has_no_detail": not run.summary.get("detail_is_written", True),
    }
    if not context["has_no_detail"]:
        where = ResultFilter(equal={"namespace": namespace, "user": user})
        try:
            result, number = read_page(
                run, "detail", where=where, number=page_number(request), max_rows=ROWS_PER_PAGE
            )
        except REPORT_ERRORS as error:
            context["fault"] = report_fault(run, error)
        else:
            context["page"] = numbered_page(
                request, result.rows, number=number, total=result.total_rows, max_rows=ROWS_PER_PAGE
            )
    return render_page(request, "reports/missing.html", context)
