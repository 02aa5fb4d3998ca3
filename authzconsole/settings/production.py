"""With PRODUCTION, the console refuses to start in an unsafe state and names all problems at once."""

import ipaddress
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from django.core.exceptions import ImproperlyConfigured

from .analyses import SPARK_CONF, SPARK_MASTER
from .authorization import JOURNAL_KEYS
from .database import DATABASES
from .environment import PRODUCTION, STATE_DIR, env
from .servers import REDIS_URL
from .site import ALLOWED_HOSTS, DEBUG, PUBLIC_URL, SECRET_KEY, TRUSTED_PROXIES

MIN_SECRET_KEY_CHARACTERS = 50
# a network with a shorter prefix contains more than proxies
MIN_PREFIX_BITS = {4: 8, 6: 32}
GENERATE = "python3 -c 'import secrets; print(secrets.token_urlsafe(50))'"


def unsafe_settings(
    *,
    debug: bool,
    secret_key: str,
    journal_keys: Sequence[str],
    database: dict,
    sqlite_is_permitted: bool,
    public_url: str,
    allowed_hosts: Sequence[str],
    redis_url: str,
    trusted_proxies: Sequence[str],
    state_folder: Path,
    spark_master: str,
    spark_conf: Mapping[str, str],
) -> list[str]:
    """Return a sentence for each setting that is unsafe in production, with its remedy.

    No sentence contains a secret.
    """
    return [
        *(["DEBUG is on, which shows source code and settings to visitors: remove DEBUG"] if debug else []),
        *_key_problems(secret_key, journal_keys),
        *_database_problems(database, sqlite_is_permitted),
        *(
            []
            if public_url.startswith("https://")
            else [
                f"PUBLIC_URL is {public_url}: set it to the https:// address of the proxy in front of the console"
            ]
        ),
        *(
            f"ALLOWED_HOSTS contains {host}: list only the host names that people use"
            for host in allowed_hosts
            if host == "*" or _is_loopback(host)
        ),
        *_redis_problems(redis_url),
        *_proxy_problems(trusted_proxies),
        *_folder_problems(state_folder),
        *_spark_problems(spark_master, spark_conf),
    ]


def _key_problems(secret_key: str, journal_keys: Sequence[str]) -> Iterator[str]:
    if not secret_key:
        yield f"SECRET_KEY is missing: set SECRET_KEY or SECRET_KEY_FILE to a new key ({GENERATE})"
    elif (
        len(secret_key) < MIN_SECRET_KEY_CHARACTERS
        or len(set(secret_key)) < 5
        or secret_key.startswith("django-insecure-")
    ):
        yield f"SECRET_KEY can be guessed: it must have at least {MIN_SECRET_KEY_CHARACTERS} random characters ({GENERATE})"
    if not journal_keys:
        yield (
            f"JOURNAL_KEYS is missing: set JOURNAL_KEYS or JOURNAL_KEYS_FILE. A new console gets a new key ({GENERATE}); an "
            "existing one keeps the key in its state folder"
        )


def _is_loopback(host: str) -> bool:
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _database_problems(database: dict, sqlite_is_permitted: bool) -> Iterator[str]:
    options = database.get("OPTIONS", {})
    if database["ENGINE"] == "django.db.backends.sqlite3":
        if not sqlite_is_permitted:
            yield (
                "DATABASE_URL is SQLite: set it to PostgreSQL, or set SQLITE_IN_PRODUCTION=true for a small console on one "
                "machine"
            )
        return
    host = str(options.get("host") or database.get("HOST") or "")
    is_local = not host or host.startswith("/") or _is_loopback(host)
    if not is_local and options.get("sslmode") != "verify-full":
        yield (
            f"DATABASE_URL does not verify the server {host}: add ?sslmode=verify-full and, for a private certificate "
            "authority, &sslrootcert=/PATH/ca.crt"
        )


def _redis_problems(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    if _is_loopback(parts.hostname or ""):
        return
    if not parts.password:
        yield "REDIS_URL has no password: set REDIS_PASSWORD or REDIS_PASSWORD_FILE, and `requirepass` in Redis"
    if parts.scheme != "rediss":
        yield f"REDIS_URL does not encrypt the connection to {parts.hostname}: write rediss:// and enable TLS in Redis"
        return
    options = parse_qs(parts.query)
    if options.get("ssl_cert_reqs", ["required"]) != ["required"] or options.get(
        "ssl_check_hostname", ["true"]
    ) != ["true"]:
        yield "REDIS_URL does not verify the server: remove ssl_cert_reqs and ssl_check_hostname"


def _proxy_problems(networks: Sequence[str]) -> Iterator[str]:
    for text in networks:
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            yield f"TRUSTED_PROXIES is invalid: {error}"
            continue
        if network.prefixlen < MIN_PREFIX_BITS[network.version]:
            yield (
                f"TRUSTED_PROXIES contains {text}, so clients can forge their address: list only the addresses of the "
                "proxies"
            )


def _folder_problems(folder: Path) -> Iterator[str]:
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o007:
        yield f"{folder} has the mode {mode:04o}, so every account of this machine can use it: chmod 0700 {folder}"


def _spark_problems(master: str, conf: Mapping[str, str]) -> Iterator[str]:
    # a standalone master cannot receive the secret that Spark generates for other masters
    is_standalone = master.startswith("spark://")
    missing = [
        name
        for name in ("spark.authenticate", "spark.network.crypto.enabled")
        if conf.get(name, "false" if is_standalone else "true").lower() != "true"
    ]
    if is_standalone and not conf.get("spark.authenticate.secret"):
        missing.append("spark.authenticate.secret")
    if missing:
        yield (
            f"SPARK_CONF does not protect the connections of {master} ({', '.join(missing)}), so every process that reaches "
            "their ports can execute code: see Authentication in docs/guides/cluster.md"
        )


if PRODUCTION:
    problems = unsafe_settings(
        debug=DEBUG,
        secret_key=SECRET_KEY,
        journal_keys=JOURNAL_KEYS,
        database=DATABASES["default"],
        sqlite_is_permitted=env.bool("SQLITE_IN_PRODUCTION", default=False),
        public_url=PUBLIC_URL,
        allowed_hosts=ALLOWED_HOSTS,
        redis_url=REDIS_URL,
        trusted_proxies=TRUSTED_PROXIES,
        state_folder=STATE_DIR,
        spark_master=SPARK_MASTER,
        spark_conf=SPARK_CONF,
    )
    if problems:
        raise ImproperlyConfigured(
            "PRODUCTION is set, but the console is not safe to start:\n"
            + "\n".join(f"- {problem}" for problem in problems)
        )
