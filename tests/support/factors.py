"""Second factors with their journal lines, as the pages add and remove them."""

import base64
import time

from allauth.mfa.models import Authenticator
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.hotp import HOTP

from authzconsole.common.sign_in_methods import journalled_factors
from grants.journal import Author
from grants.models import User

SECRET = "JBSWY3DPEHPK3PXP"


def add_app(user: User, secret: str = SECRET) -> list[str]:
    """Add an authenticator app and recovery codes, if there are none. Return the codes."""
    with _changing(user):
        Authenticator(type=Authenticator.Type.TOTP).wrap().activate(user, secret)
        return add_recovery_codes(user)


def add_recovery_codes(user: User) -> list[str]:
    return Authenticator(type=Authenticator.Type.RECOVERY_CODES).wrap().activate(user).generate_codes()


def add_passkey(user: User, name: str) -> None:
    with _changing(user):
        Authenticator(type=Authenticator.Type.WEBAUTHN).wrap().add(user, name, {})


def replace_recovery_codes(user: User) -> None:
    with _changing(user):
        Authenticator.objects.filter(user=user, type=Authenticator.Type.RECOVERY_CODES).delete()
        add_recovery_codes(user)


def remove_factor(factor: Authenticator) -> None:
    """Remove a factor, and the recovery codes with the last one."""
    with _changing(factor.user):
        factor.delete()
        rest = Authenticator.objects.filter(user=factor.user)
        if not rest.exclude(type=Authenticator.Type.RECOVERY_CODES).exists():
            rest.delete()


def code_at(secret: str, steps: int = 0) -> str:
    """Return the code that an app shows now, or some time steps of 30 seconds later."""
    hotp = HOTP(base64.b32decode(secret), 6, SHA1(), enforce_key_length=False)
    return hotp.generate(int(time.time()) // 30 + steps).decode()


def _changing(user: User):
    return journalled_factors(Author(user.username, user_id=user.pk), user)
