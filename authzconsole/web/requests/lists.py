"""The lists of access requests (to decide, own, all visible ones), and the number of requests to decide."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.lists.files import download_links
from authzconsole.lists.requests import AccessRequests
from authzconsole.web.shared.paging import keyset_page, url_with_query
from authzconsole.web.shared.parameters import choice_parameter
from authzconsole.web.shared.rendering import render_page
from grants.models import AccessRequest, RequestState, User
from grants.requests.approvers import (
    ApproverScope,
    approver_scope,
    requests_to_answer,
    requests_to_decide,
)
from grants.requests.disclosure import listed_parts
from grants.roles.capabilities import Capability

COLUMNS = ("Request", "State", "For", "Requested", "Until")
REQUESTS_PER_PAGE = 50
SHOWN = {"to-decide": "To decide", "mine": "My requests", "all": "All"}
MAX_COUNTED = 99


@require_safe
def request_list(request: HttpRequest) -> HttpResponse:
    account = request.user
    shown = choice_parameter(request, "show", SHOWN) or _default_list(account)
    state = choice_parameter(request, "state", RequestState.values)
    listed = AccessRequests(account, {"show": shown, "state": state})
    rows = listed.rows().prefetch_related("parts")
    page = keyset_page(request, rows, *listed.order, max_rows=REQUESTS_PER_PAGE)
    scope = approver_scope(account)
    return render_page(
        request,
        "requests/list.html",
        {
            "columns": COLUMNS,
            "page": page,
            "rows": [(row, _title(row, scope)) for row in page.rows],
            "shown": shown,
            "state": state,
            "tabs": SHOWN.items(),
            "states": [("", "Any state"), *RequestState.choices],
            "downloads": download_links(
                AccessRequests,
                lambda extension: url_with_query(
                    f"access_requests_{extension}", {"show": shown, "state": state}
                ),
            ),
            "can_see_all": account.can_see_all,
        },
    )


@require_safe
def request_count(request: HttpRequest) -> HttpResponse:
    """Return the number of requests that wait for a decision or an answer of the account, as a badge of the
    navigation; 204 if there are none.
    """
    waiting = (requests_to_decide(request.user), requests_to_answer(request.user))
    count = sum(rows.order_by()[: MAX_COUNTED + 1].count() for rows in waiting)
    if not count:
        return HttpResponse(status=204)
    return render_page(request, "requests/_count.html", {"count": count, "limit": MAX_COUNTED})


def _default_list(account: User) -> str:
    """Return the list that an account sees first.

    Data stewards, delegates and members of groups decide only sometimes.
    """
    return "to-decide" if account.can(Capability.APPROVE) or requests_to_decide(account).exists() else "mine"


def _title(row: AccessRequest, scope: ApproverScope) -> str:
    """Return what is requested, as far as the account may know it. Runs no query for prefetched parts."""
    if row.colleague:
        return f"the access of user:{row.colleague}"
    parts = listed_parts(row, scope)
    if not parts:
        # a delegate: the page of the request names the parts
        return "access to what you administer"
    return f"{parts[0].title} and {len(parts) - 1} more" if len(parts) > 1 else parts[0].title
