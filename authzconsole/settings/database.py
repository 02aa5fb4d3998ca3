"""The database connection."""

from .environment import STATE_DIR, env

DATABASES = {"default": env.db_url("DATABASE_URL", default=f"sqlite:///{STATE_DIR / 'console.sqlite3'}")}
if password := env.str("DATABASE_PASSWORD", default=""):
    DATABASES["default"]["PASSWORD"] = password
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = {
        "timeout": 30,
        # writing transactions take the lock at their start; upgrading a read lock later fails at once instead
        # of waiting
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-65536; "
        "PRAGMA temp_store=MEMORY;",
    }
else:
    DATABASES["default"]["CONN_MAX_AGE"] = 60
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    # plan the statement behind a decision once instead of for every question: five times as many decisions
    # per second
    DATABASES["default"].setdefault("OPTIONS", {}).update(server_side_binding=True, prepare_threshold=5)
    # a server that silently disappeared is noticed within a minute instead of two hours
    for name, value in {
        "connect_timeout": 10,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,
    }.items():
        DATABASES["default"]["OPTIONS"].setdefault(name, value)
    # a statement takes milliseconds, its just-in-time compilation hundreds of milliseconds
    DATABASES["default"]["OPTIONS"].setdefault("options", "-c jit=off")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
