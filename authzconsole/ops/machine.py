"""Which of the programs that the console needs are on this machine."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

JVM_HOMES = Path("/usr/lib/jvm")
POSTGRESQL_HOMES = Path("/usr/lib/postgresql")
OLDEST_JAVA, OLDEST_REDIS, OLDEST_POSTGRESQL = 17, 6, 14


def version_of(program: Path, argument: str) -> str:
    """What the program says about its version; empty if it does not start."""
    try:
        said = subprocess.run([program, argument], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stdout + said.stderr if said.returncode == 0 else ""


def java_major(said: str) -> int:
    """17 of `openjdk version "17.0.15"`, 8 of `java version "1.8.0_402"`; 0 if it is no such text."""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


def redis_major(said: str) -> int:
    """7 of `Redis server v=7.0.15 sha=...`; 0 if it is no such text."""
    found = re.search(r"\bv=(\d+)\.", said)
    return int(found[1]) if found else 0


def postgresql_major(said: str) -> int:
    """15 of `initdb (PostgreSQL) 15.12`; 0 if it is no such text."""
    found = re.search(r"\(PostgreSQL\) (\d+)", said)
    return int(found[1]) if found else 0


def on_path(*names: str) -> Path | None:
    return next((Path(found) for name in names if (found := shutil.which(name))), None)


def _java_homes() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    if java := on_path("java"):
        yield java.resolve().parent.parent
    if JVM_HOMES.is_dir():
        yield from sorted(JVM_HOMES.iterdir(), reverse=True)


def java_home() -> Path | None:
    """The first Java home, of JAVA_HOME, PATH and Debian's folder, that is new enough for Spark."""
    homes = (home for home in _java_homes() if (home / "bin" / "java").is_file())
    return next((home for home in homes if java_major(version_of(home / "bin" / "java", "-version")) >= OLDEST_JAVA),
                None)


def redis_server() -> Path | None:
    program = on_path("redis-server")
    return program if program and redis_major(version_of(program, "--version")) >= OLDEST_REDIS else None


def _postgresql_folders() -> Iterator[Path]:
    if initdb := on_path("initdb"):
        yield initdb.resolve().parent
    homes = [home for home in POSTGRESQL_HOMES.glob("*") if home.name.isdigit()]
    yield from (home / "bin" for home in sorted(homes, key=lambda home: int(home.name), reverse=True))


def postgresql_folder() -> Path | None:
    """The folder with `initdb` and `postgres`."""
    complete = (folder for folder in _postgresql_folders() if (folder / "postgres").is_file())
    return next((folder for folder in complete
                 if postgresql_major(version_of(folder / "initdb", "--version")) >= OLDEST_POSTGRESQL), None)


def chromium() -> Path | None:
    if named := os.environ.get("CHROMIUM"):
        return Path(named) if os.access(named, os.X_OK) else None
    return on_path("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True)
class Tool:
    """Something to be found, or else installed from the first of these Debian packages that exists.

    service: the system service that the package would start; the console starts a server of its own.
    """

    title: str
    find: Callable[[], Path | None]
    packages: tuple[str, ...]
    service: str = ""


JAVA = Tool("Java 17 or newer", java_home, ("openjdk-17-jre-headless", "default-jre-headless"))
REDIS = Tool("redis-server 6 or newer", redis_server, ("redis-server",), service="redis-server")
POSTGRESQL = Tool("the PostgreSQL server, 14 or newer", postgresql_folder, ("postgresql",), service="postgresql")
CHROMIUM = Tool("Chromium", chromium, ("chromium",))
