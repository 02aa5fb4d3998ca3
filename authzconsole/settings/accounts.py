"""Accounts, passwords, sign-in and sessions."""

from .environment import env

AUTH_USER_MODEL = "grants.User"
LOCAL_BACKEND = "django.contrib.auth.backends.ModelBackend"
AUTHENTICATION_BACKENDS = [LOCAL_BACKEND]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}", "OPTIONS": options}
    for name, options in (
        ("UserAttributeSimilarityValidator", {}),
        ("MinimumLengthValidator", {"min_length": 12}),
        ("CommonPasswordValidator", {}),
        ("NumericPasswordValidator", {}),
    )
]
# a password that an administrator or `bootstrap` set must be changed within this time
FIRST_PASSWORD_HOURS = env.int("FIRST_PASSWORD_HOURS", default=72)
# the links of invitations are tokens of Django's password reset
PASSWORD_RESET_TIMEOUT = FIRST_PASSWORD_HOURS * 3600
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "sign-in"

SESSION_ENGINE = "authzconsole.sessions"
# a session ends after this time without a request, and at the latest after this time
SESSION_IDLE_SECONDS = env.int("SESSION_IDLE_SECONDS", default=1_800)
SESSION_ABSOLUTE_SECONDS = env.int("SESSION_ABSOLUTE_SECONDS", default=43_200)
# SameSite of the session cookie is the default of Django; transport.py has its name
SESSION_COOKIE_HTTPONLY = True
# the server enforces the limits
SESSION_EXPIRE_AT_BROWSER_CLOSE = True

# counts from the creation of a token; older tokens are refused
TOKEN_MAX_DAYS = env.int("TOKEN_MAX_DAYS", default=365)

# sensitive changes need an authentication that is not older; see
# authzconsole/web/accounts/reauthentication.py
REAUTHENTICATION_SECONDS = env.int("REAUTHENTICATION_SECONDS", default=900)
