"""Store when the account of a session was last authenticated, and check that this is recent enough for
sensitive changes. Check whether an account still has to set up the second factor that its console role requires.

Every sign-in is an authentication: `django.contrib.auth.login` sends a signal, which authzconsole.apps
connects.
"""

from time import time

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from authzconsole.common.problems import Problem
from grants.models import User

# set in the session if the sign-in provider has asked for a second factor
VERIFIED_BY_PROVIDER_KEY = "second_factor_at_provider"


def has_factor(user: User) -> bool:
    """Return whether the account has a factor. Recovery codes alone do not count as a factor."""
    return (
        Authenticator.objects.filter(user_id=user.pk).exclude(type=Authenticator.Type.RECOVERY_CODES).exists()
    )


def lacks_required_factor(request: HttpRequest, account: User) -> bool:
    """Return whether the account of this session must set up a second factor.

    Runs one query if its role requires one.
    """
    if account.role not in settings.MFA_REQUIRED_ROLES or VERIFIED_BY_PROVIDER_KEY in request.session:
        return False
    return not has_factor(account)


def check_second_factor(request: HttpRequest) -> None:
    """Raise Problem (403) if the account of this session lacks a required factor.

    Tokens need no second factor.
    """
    if lacks_required_factor(request, request.user):
        page = f"{settings.PUBLIC_URL}{reverse('second-factor')}"
        raise Problem(403, f"your console role requires a second factor: set one up at {page} first")


TIME_KEY, METHOD_KEY = "authenticated_at", "authenticated_by"
SIGN_IN = "sign-in"
# the id of the sign-in provider; sessions that were started with a password have no such key
PROVIDER_SESSION_KEY = "sign_in_provider"


def record_authentication(request: HttpRequest, method: str) -> None:
    """Store in the session that the account was authenticated now. method: its name, such as `password` or
    `totp`.
    """
    request.session[TIME_KEY], request.session[METHOD_KEY] = int(time()), method


def record_sign_in(sender, request: HttpRequest | None, user, **kwargs) -> None:
    """Receive `user_logged_in`.

    Sign-in code that knows the method calls `record_authentication` afterwards.
    """
    if request is not None:
        record_authentication(request, SIGN_IN)


def is_recently_authenticated(request: HttpRequest, *methods: str) -> bool:
    """Return whether the account of the session was authenticated within REAUTHENTICATION_SECONDS.

    methods: of which one is required; by default any. Runs no query.
    """
    if methods and request.session.get(METHOD_KEY) not in methods:
        return False
    authenticated_at = request.session.get(TIME_KEY)
    # an authentication in the future does not count: the clock was changed
    return (
        isinstance(authenticated_at, int)
        and 0 <= time() - authenticated_at < settings.REAUTHENTICATION_SECONDS
    )


def check_recently_authenticated(request: HttpRequest) -> None:
    """Raise Problem (403) unless the account of the session was authenticated recently.

    For APIs; pages ask instead.
    """
    if not is_recently_authenticated(request):
        page = f"{settings.PUBLIC_URL}{reverse('reauthenticate')}"
        raise Problem(
            403, f"this change needs a recent authentication: confirm your identity at {page} and repeat it"
        )
