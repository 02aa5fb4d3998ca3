"""The page of all grants and memberships with a period: those that end soon, begin later, or have expired."""

from collections.abc import Iterator
from heapq import merge
from itertools import islice

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.links import address_link_to, principal_link_from_text
from authzconsole.web.shared.paging import paginate_sequence, url_with
from authzconsole.web.shared.parameters import choice_parameter, field_text, text_parameter
from authzconsole.web.shared.principal_input import principal_from_input
from authzconsole.web.shared.rendering import render_page, see_other
from authzconsole.web.shared.times.limited_lists import MAX_COUNTED, SHOWN, counted_rows, period_query
from authzconsole.web.shared.times.periods import fields_of_period
from entities.address import AddressError, parse_address
from grants.errors import GrantError
from grants.models import Membership
from grants.plans.sources.expired import PeriodScope, create_expired_plan
from grants.roles.capabilities import Capability

ROWS_PER_PAGE = 25
# the rows of three tables are merged, so their number is limited; filters reach the others
MAX_ROWS = 500
_RELATIONS = {
    "user": ("user", "content_object", "granted_by"),
    "group": ("group", "content_object", "granted_by"),
    "member": ("user", "group"),
}


@require_safe
@capability_required(Capability.READ_ALL)
def limited_access(request: HttpRequest) -> HttpResponse:
    """Show the list `show` of SHOWN.

    URL parameters: principal, within (see PeriodScope). Runs six queries.
    """
    show = choice_parameter(request, "show", SHOWN) or "soon"
    texts = {
        "principal": text_parameter(request, "principal", max_characters=160),
        "within": text_parameter(request, "within"),
    }
    fault = ""
    try:
        scope = _scope(texts)
        page = paginate_sequence(
            request, list(islice(_rows(show, scope), MAX_ROWS)), max_rows=ROWS_PER_PAGE, name="page"
        )
        total, expired = counted_rows(show, scope), counted_rows("expired", scope)
    except (GrantError, AddressError) as error:
        scope, fault, total, expired = PeriodScope(), f"{error}.", 0, 0
        page = paginate_sequence(request, [], max_rows=ROWS_PER_PAGE, name="page")
    return render_page(
        request,
        "people/limited.html",
        {
            **texts,
            "show": show,
            "title": SHOWN[show],
            "fault": fault,
            "page": page,
            "total": total,
            "expired": expired,
            "max_counted": MAX_COUNTED,
            "max_rows": MAX_ROWS,
            "is_filtered": bool(texts["principal"] or texts["within"]),
            "tabs": [
                (name, title, url_with(request, show=name, page=None), name == show)
                for name, title in SHOWN.items()
            ],
            "rows": [_row(row, request.user.can(Capability.CHANGE_GRANTS)) for row in page.rows],
            "can_change": request.user.can(Capability.CHANGE_GRANTS),
        },
        status=400 if fault else 200,
    )


@require_POST
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def new_expired_plan(request: HttpRequest) -> HttpResponse:
    """Create a plan that revokes what has expired."""
    texts = {name: field_text(request.POST, name).strip() for name in ("principal", "within")}
    try:
        plan = create_expired_plan(author=request_author(request), scope=_scope(texts))
    except (GrantError, AddressError) as error:
        messages.error(request, f"No plan was created: {error}.")
        return see_other(f"{reverse('limited-access')}?show=expired")
    return see_other(plan_url(plan))


def _scope(texts: dict[str, str]) -> PeriodScope:
    """Return the scope that was entered. Raise GrantError or AddressError if it is invalid."""
    within = parse_address(texts["within"]) if texts["within"] else None
    return PeriodScope(principal_from_input(texts["principal"]) if texts["principal"] else "", within)


def _rows(show: str, scope: PeriodScope) -> Iterator:
    """Yield grants and memberships in the order of their times, from at most MAX_ROWS of each table."""
    condition, order = period_query(show)
    tables = scope.rows(condition)
    parts = [_first(rows.select_related(*_RELATIONS[type_]), order) for type_, rows in tables.items()]
    column = order.lstrip("-")
    return merge(*parts, key=lambda row: getattr(row, column), reverse=order.startswith("-"))


def _first(rows: QuerySet, order: str) -> list:
    return list(rows.order_by(order, "pk")[:MAX_ROWS])


def _row(row, can_change: bool) -> dict:
    period = fields_of_period(row.validity)
    if isinstance(row, Membership):
        query = {"verb": "add", "user": row.user.username, "group": row.group.name, "page": str(row.user)}
        return {
            "principal": principal_link_from_text(str(row.user)),
            "group": principal_link_from_text(f"group:{row.group.name}"),
            "validity": row.validity,
            "url": reverse("membership", query=query) if can_change else "",
        }
    principal = str(row.user) if hasattr(row, "user_id") else f"group:{row.group.name}"
    query = {"principal": principal, "privilege": row.privilege.value, **period}
    url = reverse("grant", args=[str(row.content_object)], query=query) if can_change else ""
    return {
        "principal": principal_link_from_text(principal),
        "address_link": address_link_to(row.content_object),
        "privilege": row.privilege,
        "validity": row.validity,
        "reason": row.reason,
        "url": url,
    }
