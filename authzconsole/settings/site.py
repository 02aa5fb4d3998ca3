"""Where the console runs and how it answers: keys, addresses, Django apps, middleware, static files and
security headers.
"""

from urllib.parse import urlsplit
from zoneinfo import available_timezones

from django.core.exceptions import ImproperlyConfigured

from .environment import BASE_DIR, STATE_DIR, env, stored_secret
from .sign_in import IS_SAML_INSTALLED

SECRET_KEY = env.str("SECRET_KEY", default="") or stored_secret(
    "secret_key", "all users have to sign in again"
)
# previous keys: signatures and sessions that were created with them stay valid
SECRET_KEY_FALLBACKS = env.list("SECRET_KEY_FALLBACKS", default=[])
DEBUG = env.bool("DEBUG", default=False)
PORT = env.int("PORT", default=8000)
PUBLIC_URL = env.str("PUBLIC_URL", default=f"http://127.0.0.1:{PORT}").rstrip("/")
IS_HTTPS = PUBLIC_URL.startswith("https://")
_LOCAL_HOSTS = [] if IS_HTTPS else ["127.0.0.1", "localhost", "[::1]"]
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=[*_LOCAL_HOSTS, urlsplit(PUBLIC_URL).hostname])
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]
CSRF_FAILURE_VIEW = "authzconsole.web.error_pages.csrf_failure"

# the mail server for e-mail about access requests and break-glass access; without it, none is sent
EMAIL_HOST = env.str("EMAIL_HOST", default="")
EMAIL_PORT = env.int("EMAIL_PORT", default=587)
EMAIL_HOST_USER = env.str("EMAIL_HOST_USER", default="")
EMAIL_HOST_PASSWORD = env.str("EMAIL_HOST_PASSWORD", default="")
EMAIL_USE_TLS = env.bool("EMAIL_USE_TLS", default=True)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.str("EMAIL_FROM", default=f"authzconsole@{urlsplit(PUBLIC_URL).hostname}")

INSTALLED_APPS = [
    # before django.contrib.auth, so that its commands `changepassword` and `createsuperuser` are replaced
    "authzconsole",
    "authzconsole.backup",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    # the templates of widgets, which FORM_RENDERER reads
    "django.forms",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    *(["allauth.socialaccount.providers.saml"] if IS_SAML_INSTALLED else []),
    "csp",
    "django_htmx",
    "guardian",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "entities",
    "grants",
    "analytics",
]

MIDDLEWARE = [
    # first, so that refusals of the other middleware have the id too
    "authzconsole.common.request_id.RequestIdMiddleware",
    # before all that needs the database or a session
    "authzconsole.common.monitoring.views.MonitoringMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    # after WhiteNoise, because browsers may cache static files
    "authzconsole.web.middleware.NoStoreMiddleware",
    "authzconsole.common.security_events.record.SecurityEventMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "authzconsole.web.middleware.SignInMiddleware",
    "authzconsole.web.middleware.FirstStepsMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "authzconsole.web.people.impersonation.SeeAsMiddleware",
    "authzconsole.web.middleware.TimeZoneMiddleware",
    "authzconsole.web.middleware.PageQueryPlanMiddleware",
    "authzconsole.web.middleware.ProblemMiddleware",
    "authzconsole.web.middleware.WrongMethodMiddleware",
]

ROOT_URLCONF = "authzconsole.urls"
WSGI_APPLICATION = "authzconsole.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "authzconsole.web.context_processors.navigation",
            ],
        },
    },
]

FORM_RENDERER = "authzconsole.web.forms.ConsoleRenderer"

STATIC_URL = "static/"
# an installation collects the files once, in a folder that the console cannot write
IS_STATIC_INSTALLED = bool(env.str("STATIC_ROOT", default=""))
STATIC_ROOT = BASE_DIR / env.str("STATIC_ROOT", default="") if IS_STATIC_INSTALLED else STATE_DIR / "static"
# the documentation site, which `make docs` builds; an installation has its own
DOCS_ROOT = BASE_DIR / env.str("DOCS_ROOT", default="var/docs")
STATICFILES_DIRS = [BASE_DIR / "authzconsole" / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
# the time zone of pages for a reader who chose none
DISPLAY_TIME_ZONE = env.str("DISPLAY_TIME_ZONE", default="UTC")
if DISPLAY_TIME_ZONE not in available_timezones():
    raise ImproperlyConfigured("DISPLAY_TIME_ZONE must be the name of a time zone, such as Europe/Berlin")
USE_TZ = True
USE_I18N = False

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    },
}
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"

# the number of trusted proxies; earlier entries of X-Forwarded-For can be forged
PROXIES = env.int("PROXIES", default=int(IS_HTTPS))
# only these peers may send X-Forwarded-* headers; without a proxy, no peer
TRUSTED_PROXIES = (
    env.list("TRUSTED_PROXIES", default=["127.0.0.0/8", "::1/128"]) if PROXIES or IS_HTTPS else []
)

DATA_UPLOAD_MAX_MEMORY_SIZE = 10 * 1024 * 1024
# see authzconsole/server/requests.py
BODY_LIMITS = {
    "max_bytes": env.int("BODY_MAX_BYTES", default=32 * 1024 * 1024),
    "grace_seconds": env.float("BODY_GRACE_SECONDS", default=10),
    "min_bytes_per_second": env.int("BODY_MIN_BYTES_PER_SECOND", default=10_000),
    "max_per_address": env.int("BODIES_PER_ADDRESS", default=100),
}
