"""Limit sign-in with passwords of the console to break-glass accounts (LOCAL_SIGN_IN)."""

import logging

from django.conf import settings
from django.http import HttpRequest

from authzconsole.common.security_events.record import EventKind, record_event
from authzconsole.settings.accounts import LOCAL_BACKEND
from grants.models import User

logger = logging.getLogger(__name__)


def is_limited() -> bool:
    """Return whether only some accounts, or none, may sign in with a password of the console."""
    return settings.LOCAL_SIGN_IN != "all"


def is_password_accepted(user: User) -> bool:
    """Return whether the password that `authenticate` verified may be used. Passwords of a directory are
    always accepted.

    user: has the attribute `backend` that `authenticate` sets.
    """
    if user.backend != LOCAL_BACKEND or settings.LOCAL_SIGN_IN == "all":
        return True
    return settings.LOCAL_SIGN_IN == "break-glass" and user.username in settings.BREAK_GLASS_ACCOUNTS


def record_break_glass(request: HttpRequest, user: User) -> None:
    """Log and record that a break-glass account was used with its password of the console."""
    if user.username in settings.BREAK_GLASS_ACCOUNTS and user.backend == LOCAL_BACKEND:
        logger.warning("%s, a break-glass account, signs in with its password", user)
        record_event(EventKind.BREAK_GLASS, request=request, account=user.username)
