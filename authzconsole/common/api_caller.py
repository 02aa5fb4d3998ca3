"""Who calls: a token in the Authorization header, or else a signed-in account.

What comes back never depends on whether an address exists that the caller may not see.
"""

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from rest_framework.authentication import CSRFCheck

from authzconsole.common import login_throttle as guesses
from authzconsole.common.refusal import Refused
from authzconsole.common.tokens import ShownToken, TokenRefused, TokenUnknown, token_shown
from entities.address import Address
from entities.models import Entity
from entities.selectors import entities_at
from grants.active_generation import active_generation
from grants.evaluation.entity_filters import visibility_condition
from grants.models import User
from grants.policies.catalogue import generation_by_name
from grants.policies.question import Question

REALM = 'Bearer realm="authorization console"'


@dataclass(frozen=True, slots=True)
class Caller:
    """generation: the active one, by name. asks_about_all: about any subject, and is told everything; otherwise about the user
    `name` only. user: of a session."""

    generation: str
    asks_about_all: bool
    name: str = ""
    user: User | None = None

    def check_may_ask(self, question: Question) -> None:
        if not self.asks_about_all and (question.subject_type, question.subject) != ("user", self.name):
            raise Refused(403, f"your account may ask about itself only, which is the subject user {self.name}")

    def states_seen(self, addresses: set[Address]) -> dict[Address, str]:
        """Of the entities that `list` or `get` shows to the user: what is not seen looks like what there is not."""
        seen = visibility_condition(self.user, generation_by_name(self.generation))
        return {address: row.state for address, row in entities_at(addresses, among=Entity.objects.filter(seen)).items()}


def caller_of(request: HttpRequest, scope: str) -> Caller:
    """Raises Refused: 401 for nobody, 403 for somebody who may not call this."""
    if "Authorization" in request.headers:
        return Caller(token_of(request, scope).generation, asks_about_all=True)
    if not request.user.is_authenticated:
        raise Refused(401, "sign in, or send an API token as `Authorization: Bearer TOKEN`", WWW_Authenticate=REALM)
    check_password_is_own(request.user)
    check_forgery(request)
    return Caller(active_generation().name, request.user.can_see_all, request.user.username, request.user)


def token_of(request: HttpRequest, scope: str) -> ShownToken:
    """The token in the Authorization header, which there is. Raises Refused."""
    scheme, _, secret = request.headers["Authorization"].partition(" ")
    if scheme.lower() != "bearer":
        raise Refused(401, "the Authorization header must be `Bearer TOKEN`", WWW_Authenticate=REALM)
    try:
        token = token_shown(secret.strip())
    except TokenUnknown as error:
        raise _unknown(request, str(error)) from None
    except TokenRefused as error:
        raise _invalid(str(error)) from None
    if scope not in token.scopes:
        challenge = f'{REALM}, error="insufficient_scope", scope="{scope}"'
        raise Refused(403, f"the token lacks the scope `{scope}`", WWW_Authenticate=challenge)
    return token


def _invalid(sentence: str) -> Refused:
    return Refused(401, sentence, WWW_Authenticate=f'{REALM}, error="invalid_token", error_description="{sentence}"')


def _unknown(request: HttpRequest, sentence: str) -> Refused:
    """Counted only here, so that a good token neither waits nor is slowed down, whoever guesses beside it."""
    counted = guesses.tokens(request)
    if wait_seconds := guesses.seconds_to_wait(counted):
        return Refused(429, f"too many unknown tokens came from your address: send no other for "
                            f"{guesses.in_words(wait_seconds)}", Retry_After=str(wait_seconds))
    guesses.count_wrong(counted)
    return _invalid(sentence)


def check_password_is_own(user: User) -> None:
    """For a session only: a token is a secret of its own, and what shows it need not stop because a password was set anew."""
    if user.must_change_password:
        page = f"{settings.PUBLIC_URL}{reverse('password')}"
        raise Refused(403, f"your password was set by somebody else: choose your own at {page} first")


def check_forgery(request: HttpRequest) -> None:
    check = CSRFCheck(lambda request: None)
    check.process_request(request)
    if reason := check.process_view(request, None, (), {}):
        raise Refused(403, f"the session's request carries no proof that this console made it: {reason}")
