"""The settings of the console. They come from environment variables. The defaults work on a single machine."""

import contextlib
import json
import os
import secrets
from pathlib import Path
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured
from redis.backoff import NoBackoff
from redis.retry import Retry

from authzconsole.logs import logging_configuration
from entities.vocabulary import Privilege
from grants.policies.catalogue import GENERATIONS

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()

# the folder for everything that the console writes on this machine
STATE_DIR = BASE_DIR / (env.str("STATE_DIR", default="") or "var")
STATE_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)


def _stored_secret(name: str, consequence: str) -> str:
    """Return a secret of this checkout. It is generated at the first start, and only its owner can read it.

    consequence: what happens if the secret is generated again.
    """
    path = STATE_DIR / name
    if not path.exists():
        temporary = path.with_name(f"{name}.{os.getpid()}.{secrets.token_hex(4)}")
        with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(50))
        # atomic: the first process that links its file decides the key for all
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()
    key = path.read_text()
    if not key:
        raise ImproperlyConfigured(f"{path} is empty: remove it, and the next start generates a new key ({consequence})")
    return key


def _spark_conf() -> dict[str, str]:
    """Return further Spark settings by name, read from a JSON object; booleans and numbers are written as Spark expects them."""
    text = env.str("SPARK_CONF", default="") or "{}"
    example = """SPARK_CONF='{"spark.executor.memory": "4g"}'"""
    try:
        conf = json.loads(text)
    except ValueError as error:
        raise ImproperlyConfigured(f"SPARK_CONF is not valid JSON ({error}); write it as {example}") from None
    if not isinstance(conf, dict):
        raise ImproperlyConfigured(f"SPARK_CONF must be one JSON object, such as {example}")
    variable_names = {"spark.master": "SPARK_MASTER", "spark.driver.memory": "SPARK_DRIVER_MEMORY",
                      "spark.pyspark.python": "PYSPARK_PYTHON"}
    for name, value in conf.items():
        if name in variable_names:
            raise ImproperlyConfigured(f"SPARK_CONF: {name} has its own environment variable: set {variable_names[name]}")
        if not name.startswith("spark.") or not isinstance(value, str | int | float):
            # the message omits the value, which can be a secret
            raise ImproperlyConfigured(f"SPARK_CONF: each name must start with `spark.` and each value must be a string, a "
                                       f"number or a boolean, but `{name}` is not; write it as {example}")
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in conf.items()}


SECRET_KEY = env.str("SECRET_KEY", default="") or _stored_secret("secret_key", "all users have to sign in again")
# The first key signs new lines of the journal; all keys verify. See grants/journal_keys.py.
JOURNAL_KEYS = env.list("JOURNAL_KEYS", default=[]) or _stored_secret(
    "journal_keys", "the console is read-only until the journal is sealed again").split()
# places of the head of the journal outside the database; see grants/verification/anchor.py
JOURNAL_ANCHOR = env.list("JOURNAL_ANCHOR", default=[])
DEBUG = env.bool("DEBUG", default=False)
PORT = env.int("PORT", default=8000)
PUBLIC_URL = env.str("PUBLIC_URL", default=f"http://127.0.0.1:{PORT}").rstrip("/")
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]", urlsplit(PUBLIC_URL).hostname])
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]
CSRF_FAILURE_VIEW = "authzconsole.web.error_pages.csrf_failure"

INSTALLED_APPS = [
    # before django.contrib.auth, so that its commands `changepassword` and `createsuperuser` are replaced
    "authzconsole",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "csp",
    "django_celery_beat",
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
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    # after WhiteNoise, because browsers may cache static files
    "authzconsole.web.middleware.NoStoreMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "authzconsole.web.middleware.SignInMiddleware",
    "authzconsole.web.middleware.PasswordFirstMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "authzconsole.web.people.impersonation.SeeAsMiddleware",
    "authzconsole.web.query_plan_middleware.PageQueryPlanMiddleware",
    "authzconsole.web.middleware.DatabaseBusyMiddleware",
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

DATABASES = {"default": env.db_url("DATABASE_URL", default=f"sqlite:///{STATE_DIR / 'console.sqlite3'}")}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = {
        "timeout": 30,
        # writing transactions take the lock at their start; upgrading a read lock later fails at once instead of waiting
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-65536; "
                        "PRAGMA temp_store=MEMORY;",
    }
else:
    DATABASES["default"]["CONN_MAX_AGE"] = 60
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    # plan the statement behind a decision once instead of for every question: five times as many decisions per second
    DATABASES["default"].setdefault("OPTIONS", {}).update(server_side_binding=True, prepare_threshold=5)
    # a statement takes milliseconds, its just-in-time compilation hundreds of milliseconds
    DATABASES["default"]["OPTIONS"].setdefault("options", "-c jit=off")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

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

# Guardian only stores grants. Its backend permits everything to superusers, so decisions do not use it.
SILENCED_SYSTEM_CHECKS = ["guardian.W001"]
ANONYMOUS_USER_NAME = None
GUARDIAN_MONKEY_PATCH_USER = False
GUARDIAN_AUTO_PREFETCH = False

# further kinds of entities of this deployment; see entities/kinds_file.py
KINDS_FILE = env.str("KINDS_FILE", default="")
INSTANCE_NAME = env.str("INSTANCE_NAME", default="cdap")
DEFAULT_GENERATION = env.str("DEFAULT_GENERATION", default="final")

REDIS_URL = env.str("REDIS_URL", default="redis://127.0.0.1:6379/0")
if urlsplit(REDIS_URL).scheme not in ("redis", "rediss"):
    raise ImproperlyConfigured("REDIS_URL must be written redis://HOST:PORT/NUMBER (rediss:// for TLS)")
CACHES = {
    # per process
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 10_000}},
    # per process; see grants/evaluation/count_cache.py
    "counts": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "counts", "TIMEOUT": 3_600,
               "OPTIONS": {"MAX_ENTRIES": 1_000}},
    # shared by all processes; a list, because in a string a `,` in the password would separate two URLs
    "shared": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": [REDIS_URL], "KEY_PREFIX": "authzconsole",
        "OPTIONS": {"socket_timeout": 0.5, "socket_connect_timeout": 0.5, "retry": Retry(NoBackoff(), 0),
                    "serializer": "authzconsole.common.integer_cache.IntegerSerializer"},
    },
}
CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_DEFAULT_QUEUE = "authzconsole"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CONCURRENCY = 1
# otherwise anyone who can write to Redis could shut down the worker or change its limits
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_timeout": 5, "socket_connect_timeout": 2, "visibility_timeout": 43_200}

CELERY_BEAT_SCHEDULER = "analytics.runs.beat:Scheduler"
CELERY_BEAT_SCHEDULE = {
    # a delayed sweep can expire, because the next sweep does the same work
    "runs_sweep": {"task": "analytics.runs_sweep", "schedule": 5.0, "options": {"expire_seconds": 5}},
    "results_clean": {"task": "analytics.results_clean", "schedule": 3_600.0, "options": {"expire_seconds": 3_600}},
}

if JOURNAL_ANCHOR:
    CELERY_BEAT_SCHEDULE["journal_anchor"] = {
        "task": "authzconsole.journal_anchor", "schedule": 60.0, "options": {"expire_seconds": 60}}

SPARK_MASTER = env.str("SPARK_MASTER", default="local[*]")
SPARK_DRIVER_MEMORY = env.str("SPARK_DRIVER_MEMORY", default="2g")
SPARK_CONF = _spark_conf()
SNAPSHOT_URI = env.str("SNAPSHOT_URI", default=str(STATE_DIR / "snapshots"))
SNAPSHOTS_KEPT = env.int("SNAPSHOTS_KEPT", default=3)
# for each analysis with its options; the newest report is always kept, and 0 days means no limit
RESULTS_KEPT = env.int("RESULTS_KEPT", default=10)
RESULTS_KEPT_DAYS = env.int("RESULTS_KEPT_DAYS", default=90)
# a run that takes longer is stopped; starting Spark has a shorter limit
RUN_TIMEOUT_SECONDS = env.int("RUN_TIMEOUT_SECONDS", default=3_600)
SPARK_START_SECONDS = env.int("SPARK_START_SECONDS", default=120)
for name, seconds in (("RUN_TIMEOUT_SECONDS", RUN_TIMEOUT_SECONDS), ("SPARK_START_SECONDS", SPARK_START_SECONDS)):
    if seconds < 1:
        raise ImproperlyConfigured(f"{name} is {seconds}, but must be at least 1")
# a run without a heartbeat for this long has lost its worker; it is repeated a limited number of times
RUN_LOST_AFTER_SECONDS = env.int("RUN_LOST_AFTER_SECONDS", default=60)
RUN_ATTEMPTS_MOST = env.int("RUN_ATTEMPTS_MOST", default=3)
# the detail table can have as many rows as users times entities; only the command writes larger ones
RUN_DETAIL_ROWS_MOST = env.int("RUN_DETAIL_ROWS_MOST", default=5_000_000)

STATIC_URL = "static/"
STATIC_ROOT = STATE_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "authzconsole" / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
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
# the session cookie; its name, age and SameSite are the defaults of Django
SESSION_COOKIE_HTTPONLY = True
if PUBLIC_URL.startswith("https://"):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = 31_536_000

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["authzconsole.rest.framework.callers.Authentication"],
    # denies every method without a rule
    "DEFAULT_PERMISSION_CLASSES": ["authzconsole.rest.framework.callers.RulePermission"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "authzconsole.rest.framework.problems.exception_handler",
    # the number of trusted proxies; earlier entries of X-Forwarded-For can be forged
    "NUM_PROXIES": env.int("PROXIES", default=int(PUBLIC_URL.startswith("https://"))),
    # only the Accept header selects the format
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "OAS_VERSION": "3.1.0",
    "TITLE": "Authorization console",
    "DESCRIPTION": "Manages who may do what on the platform, and explains every decision. Authenticate with `Authorization: "
                   "Bearer TOKEN`; an administrator creates a token with `manage.py create_token USER --scope read --scope "
                   "administer --scope decide`. A session whose password was set by an administrator is refused (403) until "
                   "the user changes it; tokens keep working. Times are UTC. Lists are paged: send `next` of a page as the "
                   "`cursor` of the following one. Errors of /api/v1 are application/problem+json; errors of /access/v1 are "
                   "one JSON string, as AuthZEN requires.",
    "VERSION": "1",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums", "authzconsole.rest.openapi.document.add_strictness",
        "authzconsole.rest.openapi.document.add_authzen_endpoints",
    ],
    "COMPONENT_SPLIT_PATCH": False,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_NAME_OVERRIDES": {
        "EntityState": [(name, name) for name in ("planned", "live", "deleted")],
        "Privilege": [(privilege.value, privilege.value) for privilege in Privilege],
        "GenerationName": [(name, name) for name in GENERATIONS],
        "PlanState": [(name, name) for name in ("proposed", "applied", "discarded")],
        "RunState": [(name, name) for name in ("waiting", "running", "done", "failed", "cancelled")],
    },
}

DATA_UPLOAD_MAX_MEMORY_SIZE = 10 * 1024 * 1024
# see authzconsole/server/limits.py
BODY_LIMITS = {
    "max_bytes": env.int("BODY_MAX_BYTES", default=32 * 1024 * 1024),
    "grace_seconds": env.float("BODY_GRACE_SECONDS", default=10),
    "min_bytes_per_second": env.int("BODY_MIN_BYTES_PER_SECOND", default=10_000),
    "max_per_address": env.int("BODIES_PER_ADDRESS", default=100),
}
# only these peers may send X-Forwarded-* headers; without a proxy, no peer
TRUSTED_PROXIES = env.list("TRUSTED_PROXIES", default=["127.0.0.0/8", "::1/128"]) if REST_FRAMEWORK["NUM_PROXIES"] or \
    PUBLIC_URL.startswith("https://") else []

LOGGING = logging_configuration(
    level=env.str("LOG_LEVEL", default="INFO"), log_format=env.str("LOG_FORMAT", default="text"))
