"""The forms of second factors: those of django-allauth, with the limits on guesses of the console.

Each code is accepted once, by all processes: the database stores the last used time step of an authenticator
app (django-allauth remembers used codes in the cache of one process).
"""

import base64
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.utils import decrypt
from allauth.mfa.webauthn.forms import AddWebAuthnForm, AuthenticateWebAuthnForm, LoginWebAuthnForm
from allauth.mfa.webauthn.internal.auth import parse_authentication_response
from cryptography.hazmat.primitives import constant_time
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.hotp import HOTP
from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction

from authzconsole.common import login_throttle
from authzconsole.common.login_throttle import FailureCounter
from authzconsole.common.security_events.record import EventKind, record_event
from authzconsole.settings.accounts import LOCAL_BACKEND
from authzconsole.web.accounts.sign_in import ThrottledForm, is_password_accepted
from grants.models import User
from grants.principal_names import control_character_fault
from grants.strict_json import json_from_bytes

logger = logging.getLogger(__name__)

# fewer than for passwords, because three of the million possible codes are valid at any time
MAX_CODES_PER_PAIR = 5
# from all addresses together, so that many addresses do not give many guesses
MAX_CODES_PER_NAME = 25
MAX_CODE_CHARACTERS = 20
MAX_NAME_CHARACTERS = 50
MAX_CREDENTIAL_CHARACTERS = 20_000
LAST_COUNTER = "last_counter"
STEP_SECONDS = 30
# what python-fido2 and django-allauth raise for a malformed credential
MALFORMED = (ValidationError, ValueError, TypeError, KeyError, AttributeError, IndexError)
NOT_ACCEPTED = "The passkey was not accepted. Try again."
COPIED = (
    "The passkey was not accepted, because it may have been copied: its counter of uses went back. Sign in another "
    "way, remove the passkey and add a new one."
)
NOT_PERMITTED = "This account cannot sign in with a passkey. Sign in as usual."


def fault_of(form: forms.Form | None) -> str:
    """Return all messages of a form as one text."""
    return " ".join(message for errors in form.errors.values() for message in errors) if form else ""


class _LimitedForm(ThrottledForm, forms.Form):
    """A form that checks a factor of `user`."""

    user: User

    def check_attempts(self, *counters: FailureCounter) -> None:
        """Raise ValidationError while there were too many wrong codes."""
        self.wait_seconds = login_throttle.seconds_to_wait(*counters)
        if self.wait_seconds:
            self._record("too many wrong second factors")
            wait = login_throttle.wait_in_words(self.wait_seconds)
            raise ValidationError(f"Too many wrong codes. Wait {wait}, then try again.")

    def count_failure(self, *counters: FailureCounter) -> None:
        login_throttle.count_failure(*counters)
        self._record("wrong second factor")

    def pair_counter(self) -> FailureCounter:
        name = self.user.username
        value = f"{name} from {login_throttle.client_address(context.request)}"
        return FailureCounter(
            "second factors for the name and address", value, MAX_CODES_PER_PAIR, account=name
        )

    def _record(self, detail: str) -> None:
        name = self.user.username
        record_event(EventKind.SIGN_IN_FAILURE, request=context.request, account=name, detail=detail)


class CodeForm(_LimitedForm, AuthenticateForm):
    """The code at sign-in: of an authenticator app, or a recovery code."""

    def clean_code(self) -> str:
        # By name and address, and by name: someone who knows the password must not lock out the owner from
        # elsewhere with a few wrong codes.
        name = self.user.username
        pair = self.pair_counter()
        counters = pair, FailureCounter("second factors for the name", name, MAX_CODES_PER_NAME, account=name)
        self.check_attempts(*counters)
        code = self.cleaned_data["code"][:MAX_CODE_CHARACTERS]
        factor = _use_code(self.user, code)
        if factor is None:
            self.count_failure(*counters)
            raise ValidationError("This code is wrong, has expired or was used before.")
        # the count of the name stays, because others may be guessing
        login_throttle.reset_counters(pair)
        if factor.type == Authenticator.Type.RECOVERY_CODES:
            unused = len(factor.wrap().get_unused_codes())
            logger.warning("%s used a recovery code; %d are left", self.user, unused)
        self.authenticator = factor
        return code


@transaction.atomic
def _use_code(user: User, code: str) -> Authenticator | None:
    """Return the factor that the code belongs to, and mark the code as used. Raise ValidationError without
    the key of the factor.
    """
    codes = Authenticator.objects.select_for_update().filter(user=user)
    for factor in codes.exclude(type=Authenticator.Type.WEBAUTHN).order_by("pk"):
        if factor.type == Authenticator.Type.RECOVERY_CODES:
            wrapper = factor.wrap()
            if wrapper.validate_code(code):
                return wrapper.instance
            continue
        last = factor.data.get(LAST_COUNTER, -1)
        counter = matching_counter(decrypt(factor.data["secret"]), code, after=last)
        if counter is not None:
            factor.data[LAST_COUNTER] = counter
            factor.save(update_fields=["data"])
            return factor
    return None


def matching_counter(secret: str, code: str, *, after: int = -1) -> int | None:
    """Return the time step of a code of an authenticator app; None if it is wrong or not newer than the step
    `after`.
    """
    hotp = HOTP(base64.b32decode(secret, casefold=True), 6, SHA1(), enforce_key_length=False)
    now, code = int(time.time()) // STEP_SECONDS, code.replace(" ", "").replace("-", "")
    for counter in range(now - settings.MFA_TOTP_TOLERANCE, now + settings.MFA_TOTP_TOLERANCE + 1):
        # in constant time
        if counter > after and constant_time.bytes_eq(hotp.generate(counter), code.encode()):
            return counter
    return None


class AppForm(ActivateTOTPForm):
    """The code that proves that the user has added the secret to an authenticator app.

    counter: its time step.
    """

    counter = -1

    def clean_code(self) -> str:
        code = self.cleaned_data["code"][:MAX_CODE_CHARACTERS]
        counter = matching_counter(self.secret, code)
        if counter is None:
            raise ValidationError("This code is wrong or has expired. Enter the code that the app shows now.")
        self.counter = counter
        return code


class CredentialField(forms.CharField):
    """The answer of a passkey: an object as strict JSON."""

    def __init__(self) -> None:
        super().__init__(
            max_length=MAX_CREDENTIAL_CHARACTERS,
            error_messages=dict.fromkeys(
                ("required", "max_length", "null_characters_not_allowed"), NOT_ACCEPTED
            ),
        )

    def clean(self, value: str) -> dict:
        text = super().clean(value)
        try:
            credential = json_from_bytes(text.encode(), text_name="the credential")
        except ValueError:
            credential = None
        # django-allauth does not verify an empty object
        if not isinstance(credential, dict) or not credential:
            raise ValidationError(NOT_ACCEPTED)
        return credential


class NewPasskeyForm(AddWebAuthnForm):
    """A new passkey: its name, and its answer to the challenge of the session.

    passwordless: it replaces the password, so it must have verified its user.
    """

    credential = CredentialField()
    passwordless = forms.BooleanField(required=False)

    def clean_name(self) -> str:
        name = self.cleaned_data["name"] or "Passkey"
        if len(name) > MAX_NAME_CHARACTERS:
            raise ValidationError(f"The name has {len(name)} characters; {MAX_NAME_CHARACTERS} are allowed.")
        if fault := control_character_fault("the name", name):
            raise ValidationError(f"{fault}.")
        return name

    def clean(self) -> dict:
        with _malformed_as_not_accepted():
            return super().clean()


class PasskeyForm(_LimitedForm, AuthenticateWebAuthnForm):
    """A passkey as the second factor at sign-in."""

    credential = CredentialField()

    def clean_credential(self) -> Authenticator:
        # passkeys cannot be guessed, so that wrong codes from elsewhere never block their owner
        counter = self.pair_counter()
        self.check_attempts(counter)
        try:
            factor = _verified_passkey(self.cleaned_data["credential"], super().clean_credential)
        except ValidationError:
            self.count_failure(counter)
            raise
        login_throttle.reset_counters(counter)
        return factor


class PasskeySignInForm(LoginWebAuthnForm):
    """A passkey in place of the password and the second factor.

    It has verified its user, because the challenge requires it. It replaces a password of the console, so it
    is accepted only for accounts that could sign in with one.
    """

    credential = CredentialField()

    def clean_credential(self) -> Authenticator:
        factor = _verified_passkey(self.cleaned_data["credential"], super().clean_credential)
        user = factor.user
        user.backend = LOCAL_BACKEND
        if (
            not user.is_active
            or user.is_service
            or user.has_expired_password
            or not user.has_usable_password()
            or not is_password_accepted(user)
        ):
            raise ValidationError(NOT_PERMITTED)
        return factor


def _verified_passkey(credential: dict, verify: Callable[[], Authenticator]) -> Authenticator:
    """Return the passkey that made the answer, and store its counter of uses. Raise ValidationError if the
    answer is not valid, or if the counter is not newer, so that a copy of a passkey that counts is noticed
    (WebAuthn, section 6.1.1). Many passkeys do not count: their counter is always 0.
    """
    with _malformed_as_not_accepted():
        factor = verify()
        counter = parse_authentication_response(credential).response.authenticator_data.counter
    with transaction.atomic():
        stored = Authenticator.objects.select_for_update().get(pk=factor.pk)
        last = stored.data.get(LAST_COUNTER, stored.wrap().authenticator_data.counter)
        if (counter or last) and counter <= last:
            logger.warning(
                "the counter of the passkey %d of %s went back: it may be a copy", stored.pk, stored.user
            )
            raise ValidationError(COPIED)
        if counter:
            stored.data[LAST_COUNTER] = counter
            stored.save(update_fields=["data"])
    return factor


@contextmanager
def _malformed_as_not_accepted() -> Iterator[None]:
    try:
        yield
    except MALFORMED:
        raise ValidationError(NOT_ACCEPTED) from None
