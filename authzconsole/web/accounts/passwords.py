"""When a password may be used: guesses are throttled, and LOCAL_SIGN_IN can limit passwords of the console to
break-glass accounts.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse

from authzconsole.common import login_throttle
from authzconsole.common.security_events.record import EventKind, record_event
from authzconsole.settings.accounts import LOCAL_BACKEND
from grants.models import User

logger = logging.getLogger(__name__)


class ThrottledForm:
    """A form that checks a password or a code. wait_seconds: how long further attempts are refused."""

    wait_seconds = 0

    def limit_response(self, response: HttpResponse) -> HttpResponse:
        """Return the response with 429 and Retry-After while attempts are refused."""
        if self.wait_seconds:
            response.status_code, response["Retry-After"] = 429, str(self.wait_seconds)
        return response


class PasswordAttemptForm(ThrottledForm):
    """A form that checks a password and counts wrong passwords by user name and by client address.

    After too many wrong passwords, all such forms refuse further attempts for some time, also for unknown
    names. See authzconsole.common.login_throttle.
    """

    @contextmanager
    def throttle_guesses(self, request: HttpRequest, name: str, next_step: str) -> Iterator[None]:
        """Wrap a password check that raises ValidationError for a wrong password. While the user has to wait,
        raise it without a check.

        next_step: ends the error message, such as `sign in`.
        """
        counters = login_throttle.password_counters(request, name)
        self.wait_seconds = counters.seconds_to_wait()
        if self.wait_seconds:
            record_event(
                EventKind.SIGN_IN_FAILURE, request=request, account=name, detail="too many wrong passwords"
            )
            raise ValidationError(
                "Too many wrong passwords for this name or from your address. "
                f"Wait {login_throttle.wait_in_words(self.wait_seconds)}, then {next_step}."
            )
        try:
            yield
        except ValidationError:
            counters.count_failure()
            raise
        counters.reset()


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
