"""A throwaway PostgreSQL for one command: `.venv/bin/python -m authzconsole.ops.postgres -- COMMAND`.

It listens on a Unix socket in a temporary folder only, does without every guarantee against a crash, and is removed
with all its data however the command ends. COMMAND finds it through DATABASE_URL.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from . import Refusal
from .machine import POSTGRESQL, postgresql_folder, postgresql_major, version_of
from .processes import command_run, dies_with_parent, signals_interrupt

DATABASE = "postgres"
CARELESS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "2GB"}
# a longer path does not fit into the address of a Unix socket
LONGEST_FOLDER_CHARACTERS = 80
LONGEST_START_SECONDS = 60


def server_user() -> str | None:
    """Whom the server runs as: PostgreSQL refuses to run as root. None: as the caller."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _identity() -> dict:
    user = server_user()
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    parent = None if len(tempfile.gettempdir()) < LONGEST_FOLDER_CHARACTERS else "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="console-pg-", dir=parent))
    try:
        if user := server_user():
            shutil.chown(folder, user)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _collation(programs: Path) -> tuple[str, ...]:
    """Sorts as people do, and unlike SQLite: an order that matters must not depend on the database."""
    if postgresql_major(version_of(programs / "initdb", "--version")) < 15:
        return ("--locale=C.UTF-8",)
    return ("--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en")


def _cluster_create(programs: Path, folder: Path) -> None:
    command = [programs / "initdb", "--pgdata", folder / "data", "--username=console", "--auth=trust", "--encoding=UTF8",
               "--no-sync", *_collation(programs)]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, **_identity())
    if made.returncode != 0:
        raise Refusal(f"initdb could not make a PostgreSQL cluster:\n{made.stderr.strip()}")


def _server_start(programs: Path, folder: Path) -> subprocess.Popen:
    settings = {**CARELESS, "listen_addresses": "", "unix_socket_directories": str(folder)}
    options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
    with (folder / "log").open("w") as log:
        # out of reach of Ctrl-C: the tests that it ends still need their database to clean up
        return subprocess.Popen([programs / "postgres", "-D", folder / "data", *options], cwd=folder, stdout=log,
                                stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
                                preexec_fn=dies_with_parent(signal.SIGQUIT), **_identity())


def _wait_until_ready(programs: Path, folder: Path, server: subprocess.Popen) -> None:
    deadline = time.monotonic() + LONGEST_START_SECONDS
    asking = [programs / "pg_isready", "--quiet", "--host", folder]
    while subprocess.run(asking, capture_output=True).returncode != 0:
        if server.poll() is not None or time.monotonic() > deadline:
            raise Refusal(f"PostgreSQL did not start:\n{(folder / 'log').read_text().strip()}")
        time.sleep(0.05)


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """Yields the DATABASE_URL of a fresh server."""
    programs = postgresql_folder()
    if programs is None:
        raise Refusal(f"Missing: {POSTGRESQL.title}. `make test` installs it.")
    with _private_folder() as folder:
        _cluster_create(programs, folder)
        server = _server_start(programs, folder)
        try:
            _wait_until_ready(programs, folder, server)
            yield f"postgres://console@/{DATABASE}?host={folder}"
        finally:
            # immediate: nobody wants this data after a clean shutdown either
            server.send_signal(signal.SIGQUIT)
            server.wait()


def main() -> int:
    command = sys.argv[2:] if sys.argv[1:2] == ["--"] else sys.argv[1:]
    if not command:
        print(__doc__, file=sys.stderr)
        return 2
    signals_interrupt()
    try:
        with postgresql() as url:
            return command_run(command, env={**os.environ, "DATABASE_URL": url})
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except FileNotFoundError as error:
        print(f"No such command: {error.filename}", file=sys.stderr)
        return 127
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
