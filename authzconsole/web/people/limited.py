"""The page of all grants and memberships with a period: those that end soon, begin later, or have expired."""

from collections.abc import Iterator
from heapq import merge
from itertools import chain, islice

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from authzconsole.common.limited_access import MAX_COUNTED, SHOWN, counted_rows, period_query
from authzconsole.common.messages import as_sentence
from authzconsole.web.forms import AddressField, ConsoleForm, ForAdministrators, FormPage, PrincipalField
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.paging import paginate_sequence
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.rendering import render_page, see_other
from authzconsole.web.shared.times import fields_of_period
from grants.errors import GrantError
from grants.models import Membership
from grants.plans.sources.expired import PeriodScope, expired_plan
from grants.policies.principals import group_text
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
    form = ScopeForm(request.GET)
    texts = {name: text_parameter(request, name) for name in form.fields}
    fault, rows, total, expired = " ".join(chain.from_iterable(form.errors.values())), [], 0, 0
    if not fault:
        try:
            scope = form.scope()
            rows = list(islice(_rows(show, scope), MAX_ROWS))
            total, expired = counted_rows(show, scope), counted_rows("expired", scope)
        except GrantError as error:
            fault = as_sentence(error)
    page = paginate_sequence(request, rows, max_rows=ROWS_PER_PAGE)
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
            "tabs": SHOWN.items(),
            "rows": list(map(_with_url, page.rows)),
            "can_change": request.user.can(Capability.CHANGE_GRANTS),
        },
        status=400 if fault else 200,
    )


class ScopeForm(ConsoleForm):
    """The rows that a list or a plan is about."""

    principal = PrincipalField()
    within = AddressField()

    def scope(self) -> PeriodScope:
        """Return the scope. Raise GrantError if the principal is invalid."""
        return PeriodScope(self.cleaned_data["principal"], self.cleaned_data["within"])


class NewExpiredPlan(ForAdministrators, FormPage):
    """Create a plan that revokes what has expired."""

    http_method_names = ("post",)
    form_class = ScopeForm

    def perform(self, form: ScopeForm) -> HttpResponse:
        plan = expired_plan.create(request_author(self.request), **form.cleaned_data)
        return see_other(plan_url(plan))

    def render_to_response(self, context: dict, *, status: int = 200) -> HttpResponse:
        for faults in context["form"].errors.values():
            messages.error(self.request, f"No plan was created: {faults[0]}")
        return see_other(f"{reverse('limited-access')}?show=expired")


def _rows(show: str, scope: PeriodScope) -> Iterator:
    """Yield grants and memberships in the order of their times, from at most MAX_ROWS of each table."""
    condition, order = period_query(show)
    tables = scope.rows(condition)
    parts = [
        rows.select_related(*_RELATIONS[type_]).order_by(order, "pk")[:MAX_ROWS]
        for type_, rows in tables.items()
    ]
    column = order.lstrip("-")
    return merge(*parts, key=lambda row: getattr(row, column), reverse=order.startswith("-"))


def _with_url(row):
    """Add the URL of the form that changes the period of a grant or membership."""
    if isinstance(row, Membership):
        query = {"verb": "add", "user": row.user.username, "group": row.group.name, "page": str(row.user)}
        row.url = reverse("membership", query=query)
        return row
    row.holder = str(row.user) if hasattr(row, "user_id") else group_text(row.group.name)
    query = {"principal": row.holder, "privilege": row.privilege.value, **fields_of_period(row.validity)}
    row.url = reverse("grant", args=[str(row.content_object)], query=query)
    return row
