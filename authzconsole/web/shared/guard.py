"""Access checks of pages.

The response is 404 if the account cannot see the entity or page, as if it did not exist; 403 if it can see but not change it.
"""

from functools import wraps

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest

from authzconsole.common.messages import READ_ONLY_ACCOUNT
from entities.address import Address, AddressError, parse_address
from entities.models import Entity
from entities.selectors import entity_at
from grants.active_generation import active_generation
from grants.evaluation.entity_filters import can_see
from grants.journal import Author


class InvalidAddress(Http404):
    """The text in the URL is not an address. The message names the invalid part and is shown to every account."""


def address_or_404(text: str) -> Address:
    try:
        return parse_address(text)
    except AddressError as error:
        raise InvalidAddress(str(error)) from None


def entity_or_404(request: HttpRequest, text: str) -> Entity:
    """Return the registered entity at this address. Raise Http404 if there is none or the account cannot see it."""
    entity = entity_at(address_or_404(text))
    if entity is None or not (request.user.can_see_all or can_see(request.user, entity, active_generation())):
        raise Http404("there is no such entity")
    return entity


def administrable_address_or_404(request: HttpRequest, text: str) -> Address:
    """Return the address, registered or not, if the account may change grants on it. Raise Http404 or PermissionDenied."""
    address = address_or_404(text)
    if not request.user.can_see_all:
        entity_or_404(request, text)
    if not request.user.can_administer:
        raise PermissionDenied(READ_ONLY_ACCOUNT)
    return address


def administrator_required(view):
    """Allow only administrators. Auditors get 403; other accounts get 404, so that they do not learn that the page exists."""
    @wraps(view)
    def guarded_view(request, *args, **kwargs):
        _require_see_all(request)
        if not request.user.can_administer:
            raise PermissionDenied(READ_ONLY_ACCOUNT)
        return view(request, *args, **kwargs)

    return guarded_view


def auditor_required(view):
    """Allow only administrators and auditors. Other accounts get 404."""
    @wraps(view)
    def guarded_view(request, *args, **kwargs):
        _require_see_all(request)
        return view(request, *args, **kwargs)

    return guarded_view


def _require_see_all(request: HttpRequest) -> None:
    if not request.user.can_see_all:
        raise Http404("there is no such page")


def request_author(request: HttpRequest, reason: str = "") -> Author:
    """Return the author of the journal lines that this request writes."""
    return Author(request.user.username, reason=reason, request_id=request.id, user_id=request.user.pk,
                  caller_request_id=request.caller_id)
