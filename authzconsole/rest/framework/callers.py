"""Authenticate REST callers and check their permissions.

A caller is the account of a session, or the owner of a token within the scopes of the token.
"""

from collections.abc import Callable

from django.conf import settings
from django.http import Http404
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from authzconsole.common.api_caller import (
    REALM,
    authenticate_session,
    authenticate_token,
)
from authzconsole.common.messages import read_only_message, unreadable_message
from authzconsole.common.problems import Problem
from authzconsole.common.recent_authentication import check_recently_authenticated
from authzconsole.lists.entities import visible_entities
from authzconsole.models import TokenScope
from entities.address import Address, AddressError, parse_address
from entities.models import Entity
from grants.models import User
from grants.roles.capabilities import Capability

Rule = Callable[[Request], None]


class Authentication(BaseAuthentication):
    """Refuse requests without valid credentials (401), without the scope of the endpoint (403) and above a
    rate limit (429).
    """

    def authenticate(self, request: Request):
        scope, *others = request.parser_context["view"].scopes_of(request.method)
        if "Authorization" in request.headers:
            token = authenticate_token(request._request, scope, *others)
            return User.objects.get(pk=token.owner_id), token
        is_change = request.method not in SAFE_METHODS and scope != TokenScope.DECIDE
        return authenticate_session(request._request, scope, is_change=is_change), None

    def authenticate_header(self, request: Request) -> str:
        return REALM


class RulePermission(BasePermission):
    """Apply the rule that the endpoint declares for the method. Refuse every account if there is none.

    Methods that the endpoint does not support are not checked here, so that the answer is 405.
    """

    def has_permission(self, request: Request, view) -> bool:
        method = request.method.lower()
        if method not in view.http_method_names or not hasattr(view, method):
            return True
        rule = view.rules.get("GET" if request.method == "HEAD" else request.method)
        if rule is None:
            return False
        rule(request)
        return True


def any_account(request: Request) -> None:
    """Accept every account: the endpoint limits its answer to the account, or checks the role after the
    visibility.
    """


def readable_with(*capabilities: Capability) -> Rule:
    """Return a rule for reads. It refuses callers that have none of the capabilities (403)."""

    def check(request: Request) -> None:
        if not request.user.can(*capabilities):
            raise Problem(403, unreadable_message(*capabilities))

    return check


def changeable_with(*capabilities: Capability) -> Rule:
    """Return a rule for changes. It refuses callers that have none of the capabilities (403)."""

    def check(request: Request) -> None:
        if not request.user.can(*capabilities):
            raise Problem(403, read_only_message(*capabilities))

    return check


check_administrator = changeable_with(Capability.CHANGE_GRANTS)


def check_grant_changer(request: Request) -> None:
    """Refuse callers (403) that cannot change grants on any entity.

    The service checks the entities of a change by delegation.
    """
    if not settings.DELEGATION:
        check_administrator(request)


check_can_see_all = readable_with(Capability.READ_ALL)
check_journal_reader = readable_with(Capability.READ_JOURNAL)
check_report_reader = readable_with(Capability.READ_REPORTS)


def check_recent_authentication(request: Request) -> None:
    """Raise Problem (403) for a session without a recent authentication. Tokens need none."""
    if request.auth is None:
        check_recently_authenticated(request._request)


def visible_entity(request: Request, address: Address) -> Entity:
    """Return the entity.

    Raise Http404 if it is not registered or not visible; the caller cannot tell which.
    """
    entity = visible_entities(request.user).filter(kind=address.kind, key=address.key).first()
    if entity is None:
        raise Http404
    return entity


def address_or_404(text: str) -> Address:
    try:
        return parse_address(text)
    except AddressError:
        raise Http404 from None
