"""Verify codes of authenticator apps and recovery codes. Each code is accepted once, and guesses are limited.

django-allauth remembers used codes in the cache of one process; this module stores the last used time step in
the database.
"""

import logging

from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from allauth.mfa.utils import decrypt
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest

from authzconsole.common import login_throttle
from authzconsole.common.login_throttle import FailureCounter
from authzconsole.common.security_events.kinds import EventKind
from authzconsole.common.security_events.record import record_event
from grants.models import User

logger = logging.getLogger(__name__)

# fewer than for passwords, because three of the million possible codes are valid at any time
MAX_CODES_PER_PAIR = 5
# from all addresses together, so that many addresses do not give many guesses
MAX_CODES_PER_NAME = 25
MAX_CODE_CHARACTERS = 20
LAST_COUNTER = "last_counter"


class TooManyCodes(ValidationError):
    """Codes are not checked for some time. wait_seconds: the time until the next attempt."""

    def __init__(self, wait_seconds: int):
        self.wait_seconds = wait_seconds
        super().__init__(
            f"Too many wrong codes. Wait {login_throttle.wait_in_words(wait_seconds)}, then try again."
        )


def matching_counter(secret: str, code: str, *, after: int = -1) -> int | None:
    """Return the time step of a code of an authenticator app; None if it is wrong or not newer than the step
    `after`.
    """
    for counter in yield_hotp_counters_from_time():
        if counter > after and compare_user_code(
            actual=code, expected=format_hotp_value(hotp_value(secret, counter))
        ):
            return counter
    return None


def verify_code(request: HttpRequest, user: User, code: str) -> Authenticator:
    """Return the factor of the account that the code belongs to.

    Raise ValidationError for a wrong or used code.
    """
    counters = code_counters(request, user)
    check_attempts(request, user, *counters)
    factor = _use_code(user, code.strip()[:MAX_CODE_CHARACTERS])
    if factor is None:
        record_failure(request, user, *counters)
        raise ValidationError("This code is wrong, has expired or was used before.")
    # the count of the name stays, because others may be guessing
    login_throttle.reset_counters(pair_counter(request, user))
    if factor.type == Authenticator.Type.RECOVERY_CODES:
        logger.warning("%s used a recovery code; %d are left", user, len(factor.wrap().get_unused_codes()))
    return factor


def pair_counter(request: HttpRequest, user: User) -> FailureCounter:
    value = f"{user.username} from {login_throttle.client_address(request)}"
    return FailureCounter(
        "second factors for the name and address", value, MAX_CODES_PER_PAIR, account=user.username
    )


def code_counters(request: HttpRequest, user: User) -> tuple[FailureCounter, FailureCounter]:
    """Return the counters of wrong codes: by name and address, and by name.

    Someone who knows the password must not lock out the owner from elsewhere with a few wrong codes.
    """
    name = FailureCounter(
        "second factors for the name", user.username, MAX_CODES_PER_NAME, account=user.username
    )
    return pair_counter(request, user), name


def record_failure(request: HttpRequest, user: User, *counters: FailureCounter) -> None:
    login_throttle.count_failure(*counters)
    record_event(
        EventKind.SIGN_IN_FAILURE, request=request, account=user.username, detail="wrong second factor"
    )


def check_attempts(request: HttpRequest, user: User, *counters: FailureCounter) -> None:
    """Raise TooManyCodes while too many wrong codes were entered."""
    if wait_seconds := login_throttle.seconds_to_wait(*counters):
        record_event(
            EventKind.SIGN_IN_FAILURE,
            request=request,
            account=user.username,
            detail="too many wrong second factors",
        )
        raise TooManyCodes(wait_seconds)


@transaction.atomic
def _use_code(user: User, code: str) -> Authenticator | None:
    codes = (
        Authenticator.objects.select_for_update().filter(user=user).exclude(type=Authenticator.Type.WEBAUTHN)
    )
    for factor in codes.order_by("pk"):
        if factor.type == Authenticator.Type.RECOVERY_CODES:
            wrapper = factor.wrap()
            if wrapper.validate_code(code):
                return wrapper.instance
            continue
        counter = matching_counter(
            decrypt(factor.data["secret"]), code, after=factor.data.get(LAST_COUNTER, -1)
        )
        if counter is not None:
            factor.data[LAST_COUNTER] = counter
            factor.save(update_fields=["data"])
            return factor
    return None
