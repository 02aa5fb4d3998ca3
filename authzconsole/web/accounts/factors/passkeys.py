"""Register passkeys (WebAuthn) and verify them, as a second factor or in place of the password.

The options and the state of a ceremony come from python-fido2, which django-allauth configures with the host
of the request.
"""

import json

from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.internal import auth
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from authzconsole.common import login_throttle
from authzconsole.web.accounts.factors.codes import check_attempts, pair_counter, record_failure
from grants.models import User
from grants.principal_names import control_character_fault
from grants.strict_json import json_from_bytes

MAX_NAME_CHARACTERS = 50
MAX_CREDENTIAL_CHARACTERS = 20_000
# what python-fido2 and django-allauth raise for a malformed credential
MALFORMED = (ValidationError, ValueError, TypeError, KeyError, AttributeError, IndexError)


def registration_options(user: User, *, replaces_password: bool = False) -> str:
    """Return the options for the browser as JSON, and store the challenge in the session.

    replaces_password: the passkey must be stored with the name of the account, and verify its user with a PIN
    or a fingerprint.
    """
    return json.dumps(auth.begin_registration(user, replaces_password))


def request_options(user: User) -> str:
    """Return the options for the sign-in of this account as JSON, and store the challenge in the session."""
    return json.dumps(auth.begin_authentication(user))


def sign_in_options() -> str:
    """Return the options for a sign-in without a user name as JSON, and store the challenge in the session."""
    return json.dumps(auth.begin_authentication())


def registered_credential(text: str) -> dict:
    """Return the new credential that answers the challenge of the session.

    Raise ValidationError if it is not accepted.
    """
    try:
        credential = _parse_object(text)
        auth.complete_registration(auth.parse_registration_response(credential))
    except MALFORMED:
        raise ValidationError("The passkey was not accepted. Try again.") from None
    return credential


def passkey_name(text: str) -> str:
    """Return the name for a passkey. Raise ValidationError if the text is not a valid name."""
    name = text.strip() or "Passkey"
    if len(name) > MAX_NAME_CHARACTERS:
        raise ValidationError(f"The name has {len(name)} characters; {MAX_NAME_CHARACTERS} are allowed.")
    if fault := control_character_fault("the name", name):
        raise ValidationError(f"{fault}.")
    return name


def verify_passkey(request: HttpRequest, user: User, text: str) -> Authenticator:
    """Return the passkey of the account that answered the challenge of the session.

    Raise ValidationError if none did.
    """
    # passkeys cannot be guessed, so that wrong codes from elsewhere never block their owner
    counter = pair_counter(request, user)
    check_attempts(request, user, counter)
    try:
        credential = _parse_object(text)
        auth.parse_authentication_response(credential)
        factor = auth.complete_authentication(user, credential)
    except MALFORMED:
        record_failure(request, user, counter)
        raise ValidationError("The passkey was not accepted. Try again.") from None
    login_throttle.reset_counters(counter)
    return factor


def verify_sign_in(text: str) -> Authenticator:
    """Return the passkey that answered the challenge of `sign_in_options`. Raise ValidationError if none did.

    The passkey has verified its user, because the challenge requires it.
    """
    try:
        credential = _parse_object(text)
        auth.parse_authentication_response(credential)
        return auth.complete_authentication(auth.extract_user_from_response(credential), credential)
    except MALFORMED:
        raise ValidationError("The passkey was not accepted. Try again.") from None


def _parse_object(text: str) -> dict:
    if len(text) > MAX_CREDENTIAL_CHARACTERS:
        raise ValueError("the credential is too long")
    parsed = json_from_bytes(text.encode(), text_name="the credential")
    if not isinstance(parsed, dict):
        raise ValueError("the credential is not an object")
    return parsed
