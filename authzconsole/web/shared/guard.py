"""Who may look, who may change. Unseen is 404 and looks like nonexistent; seen but not changeable is 403."""

from functools import wraps

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest

from authzconsole.common.messages import NO_WRITES
from entities.address import Address, AddressError, parse_address
from entities.models import Entity
from entities.selectors import entity_at
from grants.active_generation import active_generation
from grants.evaluation.entity_filters import can_see
from grants.journal import Author


class InvalidAddress(Http404):
    """Text that is no address, whoever asks; its message names the part at fault."""


def address_or_404(text: str) -> Address:
    try:
        return parse_address(text)
    except AddressError as error:
        raise InvalidAddress(str(error)) from None


def entity_or_404(request: HttpRequest, text: str) -> Entity:
    """The registered entity of that address. Raises Http404 where there is none, or none that this account may see."""
    entity = entity_at(address_or_404(text))
    if entity is None or not (request.user.can_see_all or can_see(request.user, entity, active_generation())):
        raise Http404("there is no such entity")
    return entity


def administrable_address_or_404(request: HttpRequest, text: str) -> Address:
    """An address that this account may change, registered or not. Raises Http404 or PermissionDenied."""
    address = address_or_404(text)
    if not request.user.can_see_all:
        entity_or_404(request, text)
    if not request.user.can_administer:
        raise PermissionDenied(NO_WRITES)
    return address


def administrator_required(view):
    """403 for auditors, 404 for everybody else: an ordinary account is not told that the page exists."""
    @wraps(view)
    def guarded(request, *args, **kwargs):
        _see_all_or_404(request)
        if not request.user.can_administer:
            raise PermissionDenied(NO_WRITES)
        return view(request, *args, **kwargs)

    return guarded


def auditor_required(view):
    """For administrators and auditors; 404 for everybody else."""
    @wraps(view)
    def guarded(request, *args, **kwargs):
        _see_all_or_404(request)
        return view(request, *args, **kwargs)

    return guarded


def _see_all_or_404(request: HttpRequest) -> None:
    if not request.user.can_see_all:
        raise Http404("there is no such page")


def request_author(request: HttpRequest, reason: str = "") -> Author:
    return Author(request.user.username, reason=reason, request_id=request.id, user_id=request.user.pk)
