"""Find the programs that the console needs on this machine."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

JVM_HOMES = Path("/usr/lib/jvm")
POSTGRESQL_HOMES = Path("/usr/lib/postgresql")
SERVERS = Path("/usr/sbin")
HEADERS = Path("/usr/include")
OLDEST_JAVA, OLDEST_REDIS, OLDEST_POSTGRESQL = 17, 6, 14


def major_version(program: Path, argument: str = "--version") -> int:
    """Return the major version that a program prints; 0 if it does not start or prints none.

    Java prints `openjdk version "17.0.15"` or `java version "1.8.0_402"`, Redis `Redis server v=7.0.15`, and
    PostgreSQL `initdb (PostgreSQL) 15.12`.
    """
    try:
        process = subprocess.run([program, argument], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'(?:version "(?:1\.)?|v=|\(PostgreSQL\) )(\d+)', process.stdout + process.stderr)
    return int(match[1]) if match and process.returncode == 0 else 0


def on_path(*names: str) -> Path | None:
    return next((Path(path) for name in names if (path := shutil.which(name))), None)


def _java_homes() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    if java := on_path("java"):
        yield java.resolve().parent.parent
    if JVM_HOMES.is_dir():
        yield from sorted(JVM_HOMES.iterdir(), reverse=True)


def java_home() -> Path | None:
    """Return the first Java home that is new enough for Spark. Checks JAVA_HOME, PATH and Debian's folder."""
    homes = (home for home in _java_homes() if (home / "bin" / "java").is_file())
    return next(
        (home for home in homes if major_version(home / "bin" / "java", "-version") >= OLDEST_JAVA),
        None,
    )


def redis_server() -> Path | None:
    program = on_path("redis-server")
    return program if program and major_version(program) >= OLDEST_REDIS else None


def _postgresql_folders() -> Iterator[Path]:
    if initdb := on_path("initdb"):
        yield initdb.resolve().parent
    homes = [home for home in POSTGRESQL_HOMES.glob("*") if home.name.isdigit()]
    yield from (home / "bin" for home in sorted(homes, key=lambda home: int(home.name), reverse=True))


def postgresql_folder() -> Path | None:
    """Return the folder that contains `initdb` and `postgres` in a supported version."""
    complete = (folder for folder in _postgresql_folders() if (folder / "postgres").is_file())
    return next(
        (folder for folder in complete if major_version(folder / "initdb") >= OLDEST_POSTGRESQL),
        None,
    )


def chromium() -> Path | None:
    if path := os.environ.get("CHROMIUM"):
        return Path(path) if os.access(path, os.X_OK) else None
    return on_path("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def _system_server(name: str) -> Path | None:
    """Return the path of a server; Debian installs servers outside the PATH of ordinary accounts."""
    path = SERVERS / name
    return on_path(name) or (path if os.access(path, os.X_OK) else None)


def _header(name: str) -> Path | None:
    path = HEADERS / name
    return path if path.is_file() else None


@dataclass(frozen=True)
class Tool:
    """A program that the console needs.

    find: returns the path of the program, or None. packages: Debian packages that contain it; the first one
    that is available is installed. service: the system service that the package starts. It is stopped,
    because the console starts its own server.
    """

    title: str
    find: Callable[[], Path | None]
    packages: tuple[str, ...]
    service: str = ""


JAVA = Tool("Java 17 or newer", java_home, ("openjdk-17-jre-headless", "default-jre-headless"))
REDIS = Tool("redis-server 6 or newer", redis_server, ("redis-server",), service="redis-server")
POSTGRESQL = Tool(
    "the PostgreSQL server, 14 or newer", postgresql_folder, ("postgresql",), service="postgresql"
)
CHROMIUM = Tool("Chromium", chromium, ("chromium",))
SLAPD = Tool("OpenLDAP's server slapd", lambda: _system_server("slapd"), ("slapd",), service="slapd")
NGINX = Tool("nginx", lambda: _system_server("nginx"), ("nginx-light", "nginx"), service="nginx")
# python-ldap is compiled, against both libraries
LDAP_HEADERS = Tool(
    "the header files of OpenLDAP", lambda: _header("ldap.h"), ("libldap2-dev", "libldap-dev")
)
SASL_HEADERS = Tool("the header files of SASL", lambda: _header("sasl/sasl.h"), ("libsasl2-dev",))
