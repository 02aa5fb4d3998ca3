"""Authenticate the callers of AuthZEN, REST and SCIM, by an API token in the Authorization header or by a session.

Answers do not reveal whether addresses that the caller cannot see exist.
"""

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from rest_framework.authentication import CSRFCheck

from authzconsole.common import login_throttle
from authzconsole.common.problems import Problem
from authzconsole.common.rate_limits import check_request_rate
from authzconsole.common.recent_authentication import PROVIDER_SESSION_KEY, check_second_factor
from authzconsole.common.request_id import bind_account
from authzconsole.common.security_events.record import EventKind, record_event
from authzconsole.common.tokens import TokenRefused, TokenUnknown, ValidToken, verify_token
from authzconsole.models import TokenScope
from entities.address import Address
from entities.frozen import frozen
from entities.models import Entity
from entities.selectors import entities_at
from grants.active_generation import active_generation
from grants.evaluation.engine import containers_known_to
from grants.evaluation.entity_filters import visibility_condition
from grants.journal import Author
from grants.models import User
from grants.policies.catalogue import generation_by_name
from grants.policies.question import Question

REALM = 'Bearer realm="authorization console"'
# in the session of an account that sees the console as another user: the name of that user
SEE_AS_KEY = "see_as"


@frozen
class Caller:
    """The authenticated caller of an endpoint.

    generation: the name of the active generation. can_ask_about_all: whether the caller may ask about any
    subject and gets complete explanations; other callers may only ask about the user `name`. user: the
    account of a session, or the owner of a token that may only ask about its owner. account_id, token_number:
    the account and the token whose rate limits apply.
    """

    generation: str
    can_ask_about_all: bool
    name: str = ""
    user: User | None = None
    account_id: int = 0
    token_number: int | None = None

    def count_questions(self, cost: int) -> None:
        """Count a request with several questions as `cost` further requests. Raise Problem (429)."""
        if cost:
            check_request_rate(self.account_id, token_number=self.token_number, is_decision=True, cost=cost)

    def check_can_ask(self, question: Question) -> None:
        """Raise Problem (403) if the caller may not ask about the subject of the question."""
        if not self.can_ask_about_all and (question.subject_type, question.subject) != ("user", self.name):
            raise Problem(
                403, f"your account can only ask about itself, which is the subject user {self.name}"
            )

    def visible_states(self, addresses: set[Address]) -> dict[Address, str]:
        """Return the states of the entities on which the user may `list` or `get`.

        Other entities look unregistered.
        """
        visible = Entity.objects.filter(visibility_condition(self.user, generation_by_name(self.generation)))
        return {address: entity.state for address, entity in entities_at(addresses, queryset=visible).items()}

    def known_containers(self, addresses: set[Address]) -> set[Address]:
        """Return the containers that the user sees or has a grant on.

        Others look empty, whether they exist or not.
        """
        return containers_known_to(self.user, generation_by_name(self.generation), addresses)


def authenticate_caller(request: HttpRequest, scope: str, *, is_change: bool = False) -> Caller:
    """Return the caller. Raise Problem as `authenticate_token` and `authenticate_session` do."""
    if "HTTP_AUTHORIZATION" in request.META:
        return caller_of(authenticate_token(request, scope))
    return caller_of(authenticate_session(request, scope, is_change=is_change))


def authenticate_session(request: HttpRequest, scope: str, *, is_change: bool) -> User:
    """Return the account of the session.

    Raise Problem: 401 without one, 403 if it may not use this endpoint, 429 above a rate limit.
    """
    if not request.user.is_authenticated:
        raise _challenge(401, "sign in, or send an API token as `Authorization: Bearer TOKEN`")
    bind_account(request.user.get_username())
    _check_password_is_own(request)
    check_second_factor(request)
    _check_csrf(request)
    if is_change:
        _check_not_impersonating(request)
    check_request_rate(request.user.pk, is_decision=scope == TokenScope.DECIDE)
    return request.user


def caller_of(credentials: ValidToken | User) -> Caller:
    """Return the caller of the decision endpoints, by a token or the account of a session.

    Runs no query for a token.
    """
    if isinstance(credentials, User):
        account = credentials
        return Caller(active_generation().name, account.can_see_all, account.username, account, account.pk)
    token = credentials
    owner = None if token.can_ask_about_all else token.owner
    return Caller(
        token.generation,
        token.can_ask_about_all,
        owner.username if owner else "",
        owner,
        token.owner_id,
        token.number,
    )


def authenticate_token(request: HttpRequest, scope: str, *others: str) -> ValidToken:
    """Return the token of the Authorization header, which must be present.

    others: scopes that are sufficient too. Raise Problem (401, 403 or 429).
    """
    scheme, _, secret = request.META["HTTP_AUTHORIZATION"].partition(" ")
    if scheme.lower() != "bearer":
        raise _challenge(401, "the Authorization header must be `Bearer TOKEN`")
    try:
        token = verify_token(secret.strip())
    except TokenRefused as error:
        record_event(EventKind.TOKEN_REJECTED, request=request, target=request.path, detail=str(error))
        if isinstance(error, TokenUnknown):
            _count_unknown_token(request)
        details = f', error="invalid_token", error_description="{error}"'
        raise _challenge(401, str(error), details) from None
    request.api_token = token
    bind_account(token.owner_name, token=token.number)
    # before the check of the scope, so that refused requests count
    check_request_rate(token.owner_id, token_number=token.number, is_decision=scope == TokenScope.DECIDE)
    if scope == TokenScope.DECIDE:
        others = (TokenScope.SELF,)
    if token.scopes.isdisjoint((scope, *others)):
        details = f', error="insufficient_scope", scope="{scope}"'
        alternatives = "".join(f" or `{other}`" for other in others)
        raise _challenge(403, f"the token lacks the scope `{scope}`{alternatives}", details)
    return token


def author_of(request: HttpRequest, reason: str = "", *, is_provisioner: bool = False) -> Author:
    """Return the author of changes: the owner of the token, or the account of the session."""
    token = getattr(request, "api_token", None)
    return Author(
        token.owner_name if token else request.user.username,
        reason=reason,
        request_id=request.id,
        user_id=token.owner_id if token else request.user.pk,
        caller_request_id=request.caller_id,
        token=token.number if token else None,
        issuer=token.issuer if token else "",
        is_provisioner=is_provisioner,
    )


def _challenge(status: int, sentence: str, details: str = "") -> Problem:
    return Problem(status, sentence, headers={"WWW-Authenticate": REALM + details})


def _count_unknown_token(request: HttpRequest) -> None:
    """Count an unknown token. Raise Problem (429) above the limit of the address.

    Valid tokens are not counted, so that guesses never delay them.
    """
    counter = login_throttle.token_counter(request)
    if wait_seconds := login_throttle.seconds_to_wait(counter):
        raise Problem(
            429,
            f"too many unknown tokens came from your address: wait "
            f"{login_throttle.wait_in_words(wait_seconds)} before you send another one",
            headers={"Retry-After": str(wait_seconds)},
        ) from None
    login_throttle.count_failure(counter)


def _check_password_is_own(request: HttpRequest) -> None:
    """Raise Problem (403) if an administrator set the password with which the session was started.

    Tokens and sign-in providers do not depend on passwords.
    """
    if request.user.must_change_password and PROVIDER_SESSION_KEY not in request.session:
        page = f"{settings.PUBLIC_URL}{reverse('password')}"
        raise Problem(403, f"an administrator set your password: choose a new one at {page} first")


def _check_csrf(request: HttpRequest) -> None:
    """Raise Problem (403) for a session request without a valid CSRF token."""
    check = CSRFCheck(lambda request: None)
    check.process_request(request)
    if reason := check.process_view(request, None, (), {}):
        raise Problem(403, f"the CSRF check of this session request failed: {reason}")


def _check_not_impersonating(request: HttpRequest) -> None:
    """Raise Problem (403) if the account of the session sees the console as another user, which is
    read-only.
    """
    if (name := request.session.get(SEE_AS_KEY)) is not None:
        raise Problem(
            403,
            f"you are seeing the console as user:{name} and cannot change anything: choose Stop on a page "
            "of the console first",
        )
