"""The base class of forms that check a password, with throttling."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import ValidationError
from django.http import HttpRequest

from authzconsole.common import login_throttle
from authzconsole.common.security_events.record import EventKind, record_event


class PasswordAttemptForm:
    """A form that checks a password and counts wrong passwords by user name and by client address.

    After too many wrong passwords, all such forms refuse further attempts for some time, also for unknown
    names. See authzconsole.common.login_throttle.
    """

    wait_seconds = 0

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
