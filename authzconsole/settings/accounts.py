"""Accounts, passwords, sign-in and sessions."""

from .environment import env

AUTH_USER_MODEL = "grants.User"
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator",
                 "NumericPasswordValidator")
]
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "sign-in"

# the age and SameSite of the session cookie are the defaults of Django; transport.py has its name
SESSION_COOKIE_HTTPONLY = True

# counts from the creation of a token; older tokens are refused
TOKEN_MAX_DAYS = env.int("TOKEN_MAX_DAYS", default=365)

# sensitive changes need an authentication that is not older; see authzconsole/web/accounts/reauthentication.py
REAUTHENTICATION_SECONDS = env.int("REAUTHENTICATION_SECONDS", default=900)
REAUTHENTICATION_METHODS = ["authzconsole.web.accounts.reauthentication.PasswordMethod",
                            "authzconsole.web.accounts.providers.session.ProviderMethod"]
