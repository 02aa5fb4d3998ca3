"""The data stewards of a namespace: the section on its page, and the page on which administrators assign and
remove them.
"""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from authzconsole.web.shared.guard import capability_required, entity_or_404, request_author
from authzconsole.web.shared.links import (
    PrincipalLink,
    address_link_to,
    address_url,
    entity_tab_url,
    principal_link_from_text,
)
from authzconsole.web.shared.principal_input import principal_from_input
from authzconsole.web.shared.rendering import render_page, see_other, show_outcome
from entities.models import Entity
from grants.authority.stewards import sees_everything_in
from grants.errors import GrantError
from grants.models import NamespaceSteward
from grants.policies.policy import Generation
from grants.roles.capabilities import Capability
from grants.stewards.services import add_steward, remove_steward

SERVICES = {"add": add_steward, "remove": remove_steward}
MAX_STEWARDS = 200


def stewards_section(request: HttpRequest, entity: Entity, generation: Generation) -> dict | None:
    """Return the section; None if the entity is no namespace, the account may not see it, or the page shows
    the past.
    """
    if (
        entity.kind != "namespace"
        or getattr(request, "past", None)
        or not sees_everything_in(request.user, entity)
    ):
        return None
    return {
        **_rows(request, entity),
        "change_url": address_url("stewards", entity),
        "can_change": request.user.can(Capability.MANAGE_SETTINGS),
    }


def _rows(request: HttpRequest, namespace: Entity) -> dict:
    rows = NamespaceSteward.objects.select_related("user", "group").filter(namespace=namespace.key)
    stewards = list(rows.order_by("group__name", "user__username")[: MAX_STEWARDS + 1])
    return {
        "rows": [
            {"steward": steward, "principal": _link(request, steward)} for steward in stewards[:MAX_STEWARDS]
        ],
        "has_more": len(stewards) > MAX_STEWARDS,
    }


def _link(request: HttpRequest, steward: NamespaceSteward) -> PrincipalLink:
    if request.user.can_see_all:
        return principal_link_from_text(steward.principal)
    kind, _, name = steward.principal.partition(":")
    return PrincipalLink(kind, name, is_linked=False)


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.MANAGE_SETTINGS, visible_to=[Capability.READ_ALL])
def stewards_page(request: HttpRequest, address: str) -> HttpResponse:
    """List the stewards of a namespace, and assign or remove one, as the posted `verb` says."""
    namespace = entity_or_404(request, address)
    if namespace.kind != "namespace":
        raise Http404("only namespaces have data stewards")
    if request.method != "POST":
        return _page_response(request, namespace)
    principal, reason = (
        principal_from_input(request.POST.get("principal", "")),
        request.POST.get("reason", "").strip(),
    )
    service = SERVICES.get(request.POST.get("verb", ""), add_steward)
    try:
        outcome = service(
            author=request_author(request, reason), namespace=namespace.address, principal=principal
        )
    except GrantError as error:
        return _page_response(
            request, namespace, fault=f"{error}.", principal=principal, reason=reason, status=400
        )
    show_outcome(request, outcome)
    return see_other(request.path)


def _page_response(
    request: HttpRequest,
    namespace: Entity,
    *,
    fault: str = "",
    principal: str = "",
    reason: str = "",
    status: int = 200,
) -> HttpResponse:
    return render_page(
        request,
        "entities/stewards/page.html",
        {
            **_rows(request, namespace),
            "address_link": address_link_to(namespace),
            "back": entity_tab_url(namespace, "access"),
            "title_address_link": address_link_to(namespace, is_linked=False),
            "fault": fault,
            "principal": principal,
            "reason": reason,
            "action": request.path,
            "max_stewards": MAX_STEWARDS,
        },
        status=status,
    )
