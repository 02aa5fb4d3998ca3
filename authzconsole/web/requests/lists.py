"""The lists of access requests (to decide, own, all visible ones), and the number of requests to decide."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from authzconsole.web.shared.links import principal_link_from_text
from authzconsole.web.shared.paging import keyset_page, url_with, url_with_query
from authzconsole.web.shared.parameters import choice_parameter
from authzconsole.web.shared.rendering import render_page
from grants.models import AccessRequest, RequestState, User
from grants.requests.approvers import ApproverScope, approver_scope, listed_requests, requests_to_decide
from grants.requests.disclosure import listed_parts
from grants.roles.capabilities import Capability

COLUMNS = ("Request", "State", "For", "Requested", "Until")
REQUESTS_PER_PAGE = 50
SHOWN = {"to-decide": "To decide", "mine": "My requests", "all": "All"}
MAX_COUNTED = 99
EMPTY = {
    "to-decide": ("Nothing to decide", "Requests that wait for your decision appear here."),
    "mine": ("No requests", "Request access to something that you need, and follow it here."),
    "all": ("No requests", "Requests appear here when a user asks for access."),
}


@require_safe
def request_list(request: HttpRequest) -> HttpResponse:
    account = request.user
    shown = choice_parameter(request, "show", SHOWN) or _default_list(account)
    state = choice_parameter(request, "state", RequestState.values)
    rows = listed_requests(account, shown, state).prefetch_related("parts").order_by("-pk")
    page = keyset_page(request, rows, "-pk", max_rows=REQUESTS_PER_PAGE)
    scope = approver_scope(account)
    title, text = EMPTY[shown] if not state else ("No such requests", "Choose another state, or all.")
    return render_page(
        request,
        "requests/list.html",
        {
            "columns": COLUMNS,
            "page": page,
            "rows": [_row(row, scope) for row in page.rows],
            "shown": shown,
            "state": state,
            "tabs": [
                (name, label, url_with(request, show=name, state=None, before=None, after=None))
                for name, label in SHOWN.items()
            ],
            "states": [
                (value, label, url_with(request, show=shown, state=value, before=None, after=None))
                for value, label in [("", "Any state"), *RequestState.choices]
            ],
            "downloads": [
                (label, url_with_query(f"rest-access-requests-{extension}", {"show": shown, "state": state}))
                for label, extension in (("CSV", "csv"), ("JSON Lines", "jsonl"))
            ],
            "empty_title": title,
            "empty_text": text,
            "can_see_all": account.can_see_all,
        },
    )


@require_safe
def request_count(request: HttpRequest) -> HttpResponse:
    """Return the number of requests that wait for the account, as a badge of the navigation; 204 if there are
    none.
    """
    count = requests_to_decide(request.user).order_by()[: MAX_COUNTED + 1].count()
    if not count:
        return HttpResponse(status=204)
    return render_page(request, "requests/_count.html", {"count": count, "limit": MAX_COUNTED})


def _default_list(account: User) -> str:
    """Return the list that an account sees first.

    Data stewards, delegates and members of groups decide only sometimes.
    """
    return "to-decide" if account.can(Capability.APPROVE) or requests_to_decide(account).exists() else "mine"


def _row(row: AccessRequest, scope: ApproverScope) -> dict:
    return {
        "request": row,
        "url": reverse("request", args=[row.pk]),
        "title": _title(row, scope),
        "principal": principal_link_from_text(row.principal),
    }


def _title(row: AccessRequest, scope: ApproverScope) -> str:
    """Return what is requested, as far as the account may know it. Runs no query for prefetched parts."""
    if row.colleague:
        return f"the access of user:{row.colleague}"
    parts = listed_parts(row, scope)
    if not parts:
        # a delegate: the page of the request names the parts
        return "access to what you administer"
    return f"{parts[0].title} and {len(parts) - 1} more" if len(parts) > 1 else parts[0].title
