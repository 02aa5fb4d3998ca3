"""Check whether an account still has to set up the second factor that its console role requires."""

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
