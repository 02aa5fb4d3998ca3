"""The parts of a delete-readiness report beside its table: one row per namespace, and the missing grants of
one user in one namespace.
"""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from analytics.models import AnalysisRun
from analytics.results.query import ResultFilter
from analytics.results.read import result_page
from authzconsole.web.ask.answers import missing_grant_row
from authzconsole.web.reports.results import REPORT_ERRORS, read_page, report_fault, run_or_404
from authzconsole.web.reports.table import ROWS_PER_PAGE, download_urls
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.paging import numbered_page, page_number, url_with
from authzconsole.web.shared.parameters import name_parameter
from authzconsole.web.shared.rendering import render_page, see_other
from entities.address import Address, parse_address
from entities.vocabulary import Privilege
from grants.models import JobState
from grants.roles.capabilities import Capability

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
        filters = {"namespace": row["namespace"], "user": None, "page": None}
        row |= {
            "held": row["required"] - row["fewest_missing"] if row["fewest_missing"] is not None else 0,
            "ready_users": names.get(row["namespace"], [])[:MAX_NAMES],
            "ready_users_more": max(0, row["users_ready"] - MAX_NAMES),
            "ready_url": f"{url_with(request, **filters, ready='yes')}#rows",
            "rows_url": f"{url_with(request, **filters, ready=None)}#rows",
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
    if context["has_no_detail"]:
        return render_page(request, "reports/missing.html", context)
    where = ResultFilter(equal={"namespace": namespace, "user": user})
    try:
        result, number = read_page(
            run, "detail", where=where, number=page_number(request), max_rows=ROWS_PER_PAGE
        )
    except REPORT_ERRORS as error:
        return render_page(request, "reports/missing.html", context | {"fault": report_fault(run, error)})
    missing_grants = [
        missing_grant_row((parse_address(row["entity"]), Privilege.ADMIN), f"user:{user}", request.user)
        for row in result.rows
    ]
    page = numbered_page(
        request, missing_grants, number=number, total=result.total_rows, max_rows=ROWS_PER_PAGE
    )
    return render_page(
        request, "reports/missing.html", context | {"page": page, "missing_grants": missing_grants}
    )
