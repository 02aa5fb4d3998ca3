"""Who calls REST: the account of a session, or the owner of a token, no further than the token's scopes reach."""

from django.http import Http404
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from authzconsole.common.api_caller import REALM, check_forgery, check_password_is_own, token_of
from authzconsole.common.messages import NO_WRITES
from authzconsole.common.refusal import Refused
from authzconsole.rest.framework.problems import Problem
from entities.address import Address
from entities.models import Entity
from grants.active_generation import active_generation
from grants.evaluation.entity_filters import visibility_condition
from grants.journal import Author
from grants.models import User


class Authentication(BaseAuthentication):
    """Refuses whoever is nobody (401) or shows a token without the scope of the endpoint (403)."""

    def authenticate(self, request: Request):
        if "Authorization" in request.headers:
            token = token_of(request._request, request.parser_context["view"].scope_of(request.method))
            return User.objects.get(pk=token.owner_id), token
        user = request._request.user
        if not user.is_authenticated:
            raise Refused(401, "sign in, or send an API token as `Authorization: Bearer TOKEN`", WWW_Authenticate=REALM)
        check_password_is_own(user)
        check_forgery(request._request)
        return user, None

    def authenticate_header(self, request: Request) -> str:
        return REALM


def check_administrator(request: Request) -> None:
    if not request.user.can_administer:
        raise Problem(403, NO_WRITES)


def check_oversees(request: Request) -> None:
    if not request.user.can_see_all:
        raise Problem(403, "only administrators and auditors of this console may read this")


def author_of(request: Request, reason: str = "") -> Author:
    return Author(request.user.username, reason=reason, request_id=request.id, user_id=request.user.pk)


def seen_entities(request: Request):
    """All of them, or those that `list` or `get` shows to an ordinary account."""
    if request.user.can_see_all:
        return Entity.objects.all()
    return Entity.objects.filter(visibility_condition(request.user, active_generation()))


def seen_entity(request: Request, address: Address) -> Entity:
    """Raises Http404 where it is not registered or not seen, which looks the same."""
    entity = seen_entities(request).filter(kind=address.kind, key=address.key).first()
    if entity is None:
        raise Http404
    return entity
