"""What one row of a delete-readiness report lacks."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from analytics.analyses import AnalysisError
from analytics.models import AnalysisRun, RunState
from analytics.results.query import ResultFilter
from analytics.results.read import ResultPage
from analytics.storage import StorageError
from authzconsole.web.ask.answers import missing_grant_of
from authzconsole.web.reports.readiness_report import ROWS_A_PAGE, forecast_url, namespace_url, numbered_rows, unreadable
from authzconsole.web.reports.run_details import run_or_404
from authzconsole.web.shared.guard import auditor_required
from authzconsole.web.shared.links import PrincipalLink, address_link_to
from authzconsole.web.shared.paging import numbered_page, page_number
from authzconsole.web.shared.parameters import name_parameter
from authzconsole.web.shared.rendering import render_page, see_other
from entities.address import Address, parse_address
from entities.vocabulary import Privilege


@require_safe
@auditor_required
def missing_grants_page(request: HttpRequest, pk: int) -> HttpResponse:
    """The entities that one person lacks in one namespace."""
    run = run_or_404(pk)
    namespace, user = name_parameter(request, "namespace"), name_parameter(request, "user")
    if run.state != RunState.DONE:
        return see_other(reverse("analysis", args=[run.pk]))
    context = {"run": run, "namespace": namespace, "user": user, "principal": PrincipalLink("user", user),
               "address_link": address_link_to(Address("namespace", namespace)), "namespace_url": namespace_url(namespace),
               "forecast_url": forecast_url(namespace, user, run.options)}
    try:
        found, number = _lacking(run, namespace, user, page_number(request, "page"))
    except (AnalysisError, StorageError) as error:
        return render_page(request, "reports/missing.html", context | {"fault": unreadable(run, error)})
    gaps = [missing_grant_of((parse_address(row["entity"]), Privilege.ADMIN), f"user:{user}", request.user) for row in found.rows]
    page = numbered_page(request, gaps, number=number, total=found.total_rows, max_rows=ROWS_A_PAGE, name="page")
    return render_page(request, "reports/missing.html", context | {
        "page": page, "gaps": gaps, "total": found.total_rows,
        "is_left_out": not run.summary.get("detail_is_written", True),
    })


def _lacking(run: AnalysisRun, namespace: str, user: str, number: int) -> tuple[ResultPage, int]:
    if not run.summary.get("detail_is_written", True):
        return ResultPage([], 0), 1
    return numbered_rows(run, "detail", where=ResultFilter(equal={"namespace": namespace, "user": user}), number=number,
                         most_rows=ROWS_A_PAGE)
