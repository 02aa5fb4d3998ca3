"""Every setting comes from the environment; what is unset gets a default that works on one machine."""

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

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()

# everything that the console writes on this machine
STATE_DIR = BASE_DIR / (env.str("STATE_DIR", default="") or "var")
STATE_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)


def _kept_secret() -> str:
    """The key of this checkout, made at the first start and readable by its owner only."""
    path = STATE_DIR / "secret_key"
    if not path.exists():
        aside = path.with_name(f"secret_key.{os.getpid()}.{secrets.token_hex(4)}")
        with open(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(50))
        # whole or not at all, and whoever links first gives the key to everybody
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
        aside.unlink()
    kept = path.read_text()
    if not kept:
        raise ImproperlyConfigured(f"{path} is empty: remove it, and the next start makes a new key (everybody signs in again)")
    return kept


def _spark_conf() -> dict[str, str]:
    """Further Spark settings by name, from a JSON object; a flag or a number is written as Spark reads it."""
    said = env.str("SPARK_CONF", default="") or "{}"
    example = """SPARK_CONF='{"spark.executor.memory": "4g"}'"""
    try:
        conf = json.loads(said)
    except ValueError as error:
        raise ImproperlyConfigured(f"SPARK_CONF is no JSON ({error}); it is written {example}") from None
    if not isinstance(conf, dict):
        raise ImproperlyConfigured(f"SPARK_CONF must be one JSON object, written {example}")
    own = {"spark.master": "SPARK_MASTER", "spark.driver.memory": "SPARK_DRIVER_MEMORY", "spark.pyspark.python": "PYSPARK_PYTHON"}
    for name, value in conf.items():
        if name in own:
            raise ImproperlyConfigured(f"SPARK_CONF: {name} has a variable of its own, {own[name]}: set that")
        if not name.startswith("spark.") or not isinstance(value, str | int | float):
            # by its name alone: its value may be a secret
            raise ImproperlyConfigured(f"SPARK_CONF: each name must begin with `spark.` and each value be text, a number or "
                                       f"a flag, and `{name}` is not so; it is written {example}")
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in conf.items()}


SECRET_KEY = env.str("SECRET_KEY", default="") or _kept_secret()
DEBUG = env.bool("DEBUG", default=False)
PORT = env.int("PORT", default=8000)
PUBLIC_URL = env.str("PUBLIC_URL", default=f"http://127.0.0.1:{PORT}").rstrip("/")
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]", urlsplit(PUBLIC_URL).hostname])
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]
CSRF_FAILURE_VIEW = "authzconsole.web.error_pages.csrf_failure"

INSTALLED_APPS = [
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
    "authzconsole",
]

MIDDLEWARE = [
    # first, so that what the others refuse carries the id too
    "authzconsole.common.request_id.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
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
        # a transaction that will write takes the lock at its start: an upgrade in the middle fails at once instead of waiting
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-65536; "
                        "PRAGMA temp_store=MEMORY;",
    }
else:
    DATABASES["default"]["CONN_MAX_AGE"] = 60
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    # PostgreSQL plans the statement behind a decision once and not at every question: five times as many answers a second
    DATABASES["default"].setdefault("OPTIONS", {}).update(server_side_binding=True, prepare_threshold=5)
    # its statements take milliseconds, compiling them to machine code takes hundreds
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

# guardian stores grants; decisions are the engine's, so its backend (which lets superusers do everything) stays out
SILENCED_SYSTEM_CHECKS = ["guardian.W001"]
ANONYMOUS_USER_NAME = None
GUARDIAN_MONKEY_PATCH_USER = False
GUARDIAN_AUTO_PREFETCH = False

# a deployment's own kinds of entity, see entities/kinds_file.py
KINDS_FILE = env.str("KINDS_FILE", default="")
INSTANCE_NAME = env.str("INSTANCE_NAME", default="cdap")
DEFAULT_GENERATION = env.str("DEFAULT_GENERATION", default="final")

REDIS_URL = env.str("REDIS_URL", default="redis://127.0.0.1:6379/0")
if urlsplit(REDIS_URL).scheme not in ("redis", "rediss"):
    raise ImproperlyConfigured("REDIS_URL must be written redis://HOST:PORT/NUMBER (rediss:// for TLS)")
CACHES = {
    # of each process for itself
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 10_000}},
    # of each process, too: grants/evaluation/count_cache.py
    "counts": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "counts", "TIMEOUT": 3_600,
               "OPTIONS": {"MAX_ENTRIES": 1_000}},
    # of all processes; a list, because in text a `,` of a password would begin another address
    "shared": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": [REDIS_URL], "KEY_PREFIX": "authzconsole",
        "OPTIONS": {"socket_timeout": 0.5, "socket_connect_timeout": 0.5, "retry": Retry(NoBackoff(), 0)},
    },
}
CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_DEFAULT_QUEUE = "authzconsole"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CONCURRENCY = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_timeout": 5, "socket_connect_timeout": 2, "visibility_timeout": 43_200}

CELERY_BEAT_SCHEDULER = "analytics.runs.beat:Scheduler"
CELERY_BEAT_SCHEDULE = {
    # a sweep that waited behind a long run is worth nothing: the next one sees the same
    "runs_sweep": {"task": "analytics.runs_sweep", "schedule": 5.0, "options": {"expire_seconds": 5}},
    "results_clean": {"task": "analytics.results_clean", "schedule": 3_600.0, "options": {"expire_seconds": 3_600}},
}

SPARK_MASTER = env.str("SPARK_MASTER", default="local[*]")
SPARK_DRIVER_MEMORY = env.str("SPARK_DRIVER_MEMORY", default="2g")
SPARK_CONF = _spark_conf()
SNAPSHOT_URI = env.str("SNAPSHOT_URI", default=str(STATE_DIR / "snapshots"))
SNAPSHOTS_KEPT = env.int("SNAPSHOTS_KEPT", default=3)
# of each analysis with each choice of options; the newest report stays in any case, and 0 days are no limit
RESULTS_KEPT = env.int("RESULTS_KEPT", default=10)
RESULTS_KEPT_DAYS = env.int("RESULTS_KEPT_DAYS", default=90)
# a run that takes longer is ended; so is, within a shorter time, one for which Spark does not start
RUN_TIMEOUT_SECONDS = env.int("RUN_TIMEOUT_SECONDS", default=3_600)
SPARK_START_SECONDS = env.int("SPARK_START_SECONDS", default=120)
for name, seconds in (("RUN_TIMEOUT_SECONDS", RUN_TIMEOUT_SECONDS), ("SPARK_START_SECONDS", SPARK_START_SECONDS)):
    if seconds < 1:
        raise ImproperlyConfigured(f"{name} is {seconds}, and must be at least 1: with less no run ever came to its end")
# a running run that has been silent for so long was killed; it is taken up again, but not for ever
RUN_LOST_AFTER_SECONDS = env.int("RUN_LOST_AFTER_SECONDS", default=60)
RUN_ATTEMPTS_MOST = env.int("RUN_ATTEMPTS_MOST", default=3)
# the pairs behind a report are users times entities at worst; a larger detail is left to the command
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
SESSION_COOKIE_HTTPONLY = True
if PUBLIC_URL.startswith("https://"):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = 31_536_000

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["authzconsole.rest.framework.callers.Authentication"],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "authzconsole.rest.framework.problems.exception_handler",
    # so many proxies in front, of which each adds to X-Forwarded-For; what stands before that anybody may have written
    "NUM_PROXIES": env.int("PROXIES", default=int(PUBLIC_URL.startswith("https://"))),
    # `?format=` would be a second way to say what Accept says
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "OAS_VERSION": "3.1.0",
    "TITLE": "Authorization console",
    "DESCRIPTION": "Who may do what on the platform, why, and by which document. Send `Authorization: Bearer TOKEN`; an "
                   "administrator makes a token with `manage.py create_token USER --scope read --scope administer --scope "
                   "decide`. A session whose password somebody else set is refused (403) until its owner chose another; tokens "
                   "work on. Times are UTC; lists come in pages, and `next` of one is the `cursor` of the following one; every "
                   "refusal of /api/v1 is an application/problem+json, and every refusal of /access/v1 one JSON string, as its "
                   "standard asks.",
    "VERSION": "1",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums", "authzconsole.rest.openapi.document.with_exactness",
        "authzconsole.rest.openapi.document.with_authzen",
    ],
    "COMPONENT_SPLIT_PATCH": False,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_NAME_OVERRIDES": {
        "EntityState": [(name, name) for name in ("planned", "live", "deleted")],
        "Privilege": [(name, name) for name in ("READ", "WRITE", "EXECUTE", "ADMIN")],
        "GenerationName": [(name, name) for name in ("core", "existing", "proposed", "final")],
        "PlanState": [(name, name) for name in ("proposed", "applied", "discarded")],
        "RunState": [(name, name) for name in ("waiting", "running", "done", "failed", "cancelled")],
    },
}

DATA_UPLOAD_MAX_MEMORY_SIZE = 10 * 1024 * 1024

LOGGING = logging_configuration(
    level=env.str("LOG_LEVEL", default="INFO"), log_format=env.str("LOG_FORMAT", default="text"))
