"""Second factors: authenticator apps, passkeys and recovery codes. See docs/guides/sign-in.md."""

from django.core.exceptions import ImproperlyConfigured

from .environment import env
from .sign_in import ROLES

MIN_KEY_CHARACTERS = 32

# accounts with these console roles must set up a second factor before they can do anything else
MFA_REQUIRED_ROLES = env.list("MFA_REQUIRED_ROLES", default=[])
if unknown := sorted(set(MFA_REQUIRED_ROLES) - set(ROLES)):
    raise ImproperlyConfigured(
        f"MFA_REQUIRED_ROLES: `{unknown[0]}` is not a console role; the roles are {', '.join(ROLES)}"
    )

# The first key encrypts the secrets of second factors; all keys decrypt. Without keys, SECRET_KEY is used.
MFA_KEYS = env.list("MFA_KEYS", default=[])
if any(len(key) < MIN_KEY_CHARACTERS for key in MFA_KEYS):
    raise ImproperlyConfigured(f"MFA_KEYS: each key needs at least {MIN_KEY_CHARACTERS} characters")

# a passkey that verifies its user can replace the password of the console and the second factor
PASSKEY_SIGN_IN = MFA_PASSKEY_LOGIN_ENABLED = env.bool("PASSKEY_SIGN_IN", default=False)

# django-allauth stores the factors; authzconsole/web/accounts/factors/ has the pages
MFA_ADAPTER = "authzconsole.web.accounts.factors.adapter.FactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_TOTP_ISSUER = "Authorization console"
# the clocks of phones differ: a code is also accepted 30 seconds before and after its time
MFA_TOTP_TOLERANCE = 1
MFA_ALLOW_UNVERIFIED_EMAIL = True
# The console asks for a recent authentication and limits guesses itself: docs/security/accounts.md says why.
MFA_REAUTHENTICATION_REQUIRED = False
MFA_RATE_LIMITS = ACCOUNT_RATE_LIMITS = False
# how long a sign-in waits for the second factor
ACCOUNT_LOGIN_TIMEOUT = 300
