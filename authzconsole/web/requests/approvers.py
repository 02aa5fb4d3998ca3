"""The page of the groups that decide about requests for namespaces."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from authzconsole.common.messages import as_sentence
from authzconsole.web.shared.guard import capability_required, check_page_access, request_author
from authzconsole.web.shared.links import address_link_to, principal_link
from authzconsole.web.shared.paging import QuerySetSequence, paginate_sequence
from authzconsole.web.shared.parameters import field_text
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.rendering import render_page, see_other
from entities.address import AddressError, parse_address
from grants.errors import GrantError
from grants.models import NamespaceApprovers
from grants.requests.approvers import set_namespace_approvers
from grants.roles.capabilities import Capability

ROWS_PER_PAGE = 50


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.READ_ALL)
def namespace_approvers(request: HttpRequest) -> HttpResponse:
    """List the groups, and change the group of one namespace."""
    form = {name: field_text(request.POST, name).strip() for name in ("namespace", "group")}
    if request.method != "POST":
        return _response(request, form)
    check_page_access(request, Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
    try:
        address = parse_address(form["namespace"])
        set_namespace_approvers(
            author=request_author(request), namespace=address, group=name_from_input(form["group"], "group")
        )
    except (GrantError, AddressError) as error:
        return _response(request, form, fault=as_sentence(error), status=400)
    messages.success(request, f"Approvers of {address} changed.")
    return see_other(reverse("request-approvers"))


def _response(request: HttpRequest, form: dict, *, fault: str = "", status: int = 200) -> HttpResponse:
    rows = QuerySetSequence(NamespaceApprovers.objects.select_related("group"))
    page = paginate_sequence(request, rows, max_rows=ROWS_PER_PAGE, name="page")
    return render_page(
        request,
        "requests/approvers.html",
        {
            "page": page,
            "form": form,
            "fault": fault,
            "can_change": request.user.can_administer,
            "rows": [
                {"address_link": address_link_to(row.address), "group": principal_link(row.group), "row": row}
                for row in page.rows
            ],
        },
        status=status,
    )
