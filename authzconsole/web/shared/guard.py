"""Access checks of pages.

The response is 404 if the account cannot see the entity or page, as if it did not exist; 403 if it can see
but not change it.
"""

from collections.abc import Callable, Iterable
from functools import wraps

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest

from authzconsole.common.messages import READ_ONLY_ACCOUNT, read_only_message
from entities.address import Address, AddressError, parse_address, parse_grantable
from entities.models import Entity
from entities.selectors import entity_at
from grants.active_generation import active_generation
from grants.authority.rights import can_change_some_grants
from grants.authority.stewards import is_steward
from grants.evaluation.entity_filters import can_see
from grants.journal import Author
from grants.models import User
from grants.roles.capabilities import Capability


class InvalidAddress(Http404):
    """The text in the URL is not an address.

    The message names the invalid part and is shown to every account.
    """


def address_or_404(text: str, parse: Callable[[str], Address] = parse_address) -> Address:
    try:
        return parse(text)
    except AddressError as error:
        raise InvalidAddress(str(error)) from None


def entity_or_404(request: HttpRequest, text: str) -> Entity:
    """Return the registered entity at this address.

    Raise Http404 if there is none or the account cannot see it.
    """
    entity = visible_entity_at(request.user, address_or_404(text))
    if entity is None:
        raise Http404("there is no such entity")
    return entity


def visible_entity_at(user: User, address: Address) -> Entity | None:
    """Return the registered entity at this address; None if there is none, or if the account may not open its
    page.

    The same queries run in both cases, so that the time of a response does not tell which one it is.
    """
    entity = entity_at(address)
    is_visible = can_open(user, entity or Entity(pk=0, kind=address.kind, key=address.key))
    return entity if is_visible else None


def can_open(user: User, entity: Entity) -> bool:
    """Return whether the account may open the page of the entity. Runs at most three queries."""
    return user.can_see_all or can_see(user, entity, active_generation()) or is_steward(user, entity)


def administrable_address_or_404(request: HttpRequest, text: str) -> Address:
    """Return the address, registered or not, if the account may change its entity.

    Raise Http404 or PermissionDenied.
    """
    address = address_or_404(text)
    if not request.user.can_see_all:
        entity_or_404(request, text)
    if not request.user.can_administer:
        raise PermissionDenied(READ_ONLY_ACCOUNT)
    return address


def grantable_address_or_404(request: HttpRequest, text: str) -> Address:
    """Return the address, registered or not, or the pattern, if the account may change grants on it. Raise Http404 or
    PermissionDenied.

    A delegate may change grants on addresses inside its entity that it cannot see, whether or not they are
    registered.
    """
    address = address_or_404(text, parse_grantable)
    return (
        address
        if can_change_some_grants(request.user, address)
        else administrable_address_or_404(request, text)
    )


def capability_required(*capabilities: Capability, visible_to: Iterable[Capability] = ()):
    """Allow only accounts with one of the capabilities.

    Others get 403 if they have one of the capabilities `visible_to`, otherwise 404, so that they do not learn
    that the page exists.
    """

    def decorate(view):
        @wraps(view)
        def guarded_view(request, *args, **kwargs):
            check_page_access(request, *capabilities, visible_to=visible_to)
            return view(request, *args, **kwargs)

        return guarded_view

    return decorate


def check_page_access(
    request: HttpRequest, *capabilities: Capability, visible_to: Iterable[Capability] = ()
) -> None:
    """Raise PermissionDenied or Http404 unless the account has one of the capabilities; see
    `capability_required`.
    """
    if request.user.can(*capabilities):
        return
    if not request.user.can(*visible_to):
        raise Http404("there is no such page")
    raise PermissionDenied(read_only_message(*capabilities))


# pages about grants and principals
auditor_required = capability_required(Capability.READ_ALL)


def request_author(request: HttpRequest, reason: str = "", *, user: User | None = None) -> Author:
    """Return the author of the journal lines that this request writes. user: by default, that of the session."""
    user = user or request.user
    return Author(
        user.username,
        reason=reason,
        request_id=request.id,
        user_id=user.pk,
        caller_request_id=request.caller_id,
    )
