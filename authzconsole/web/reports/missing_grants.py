"""The missing grants of one user in one namespace, from a delete-readiness report."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from analytics.analyses import AnalysisError
from analytics.models import AnalysisRun
from analytics.results.query import ResultFilter
from analytics.results.read import ResultPage
from analytics.storage import StorageError
from authzconsole.web.ask.answers import missing_grant_row
from authzconsole.web.reports.readiness_report import (
    ROWS_PER_PAGE,
    forecast_url,
    namespace_url,
    read_page,
    report_fault,
)
from authzconsole.web.reports.run_details import run_or_404
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.links import PrincipalLink, address_link_to
from authzconsole.web.shared.paging import numbered_page, page_number
from authzconsole.web.shared.parameters import name_parameter
from authzconsole.web.shared.rendering import render_page, see_other
from entities.address import Address, parse_address
from entities.vocabulary import Privilege
from grants.models import JobState
from grants.roles.capabilities import Capability


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
        "namespace": namespace,
        "user": user,
        "principal": PrincipalLink("user", user),
        "address_link": address_link_to(Address("namespace", namespace)),
        "namespace_url": namespace_url(namespace),
        "forecast_url": forecast_url(namespace, user, run.options),
    }
    try:
        result, number = _missing_rows(run, namespace, user, page_number(request, "page"))
    except (AnalysisError, StorageError) as error:
        return render_page(request, "reports/missing.html", context | {"fault": report_fault(run, error)})
    missing_grants = [
        missing_grant_row((parse_address(row["entity"]), Privilege.ADMIN), f"user:{user}", request.user)
        for row in result.rows
    ]
    page = numbered_page(
        request, missing_grants, number=number, total=result.total_rows, max_rows=ROWS_PER_PAGE, name="page"
    )
    return render_page(
        request,
        "reports/missing.html",
        context
        | {
            "page": page,
            "missing_grants": missing_grants,
            "total": result.total_rows,
            "has_no_detail": not run.summary.get("detail_is_written", True),
        },
    )


def _missing_rows(run: AnalysisRun, namespace: str, user: str, number: int) -> tuple[ResultPage, int]:
    if not run.summary.get("detail_is_written", True):
        return ResultPage([], 0), 1
    return read_page(
        run,
        "detail",
        where=ResultFilter(equal={"namespace": namespace, "user": user}),
        number=number,
        max_rows=ROWS_PER_PAGE,
    )
