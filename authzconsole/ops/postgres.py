"""Run a command with a temporary PostgreSQL server: `.venv/bin/python -m authzconsole.ops.postgres --
COMMAND`.

The server listens only on a Unix socket in a temporary folder, and its data does not survive a crash. The
server and its data are removed when the command ends, even after an error. COMMAND gets the URL of the
database in DATABASE_URL.
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
from collections.abc import Iterator, Mapping
from pathlib import Path

from . import Refusal
from .machine import POSTGRESQL, major_version, postgresql_folder
from .processes import die_with_parent, exit_status, run_command

DATABASE = "postgres"
FAST_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_wal_size": "2GB",
}
# the path of a Unix socket must not be longer
MAX_FOLDER_CHARACTERS = 80
START_TIMEOUT_SECONDS = 60


def server_user() -> str | None:
    """Return the user that the server runs as, because PostgreSQL refuses to run as root.

    None means the current user.
    """
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _identity() -> dict:
    """Return the `subprocess` options that run a command as the user of the server."""
    user = server_user()
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    parent = None if len(tempfile.gettempdir()) < MAX_FOLDER_CHARACTERS else "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="console-pg-", dir=parent))
    try:
        if user := server_user():
            shutil.chown(folder, user)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _collation(programs: Path) -> tuple[str, ...]:
    """Return the options for a natural-language sort order.

    It differs from the order of SQLite, so the tests find code that depends on the order of the database.
    """
    if major_version(programs / "initdb") < 15:
        return ("--locale=C.UTF-8",)
    return ("--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en")


def create_cluster(programs: Path, folder: Path) -> None:
    command = [
        programs / "initdb",
        "--pgdata",
        folder / "data",
        "--username=console",
        "--auth=trust",
        "--encoding=UTF8",
        "--no-sync",
        *_collation(programs),
    ]
    initdb = subprocess.run(command, cwd=folder, capture_output=True, text=True, **_identity())
    if initdb.returncode != 0:
        raise Refusal(f"initdb could not create a PostgreSQL cluster:\n{initdb.stderr.strip()}")


def start_server(programs: Path, folder: Path, settings: Mapping[str, str]) -> subprocess.Popen:
    settings = {**settings, "listen_addresses": "", "unix_socket_directories": str(folder)}
    options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
    with (folder / "log").open("a") as log:
        # in a separate session, which Ctrl-C does not reach: interrupted tests still need the database to
        # clean up
        return subprocess.Popen(
            [programs / "postgres", "-D", folder / "data", *options],
            cwd=folder,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGQUIT),
            **_identity(),
        )


def wait_until_ready(programs: Path, folder: Path, server: subprocess.Popen) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    pg_isready = [programs / "pg_isready", "--quiet", "--host", folder]
    while subprocess.run(pg_isready, capture_output=True).returncode != 0:
        if server.poll() is not None or time.monotonic() > deadline:
            raise Refusal(f"PostgreSQL did not start:\n{(folder / 'log').read_text().strip()}")
        time.sleep(0.05)


def server_url(folder: Path) -> str:
    return f"postgres://console@/{DATABASE}?host={folder}"


@contextlib.contextmanager
def postgresql(settings: Mapping[str, str] = FAST_SETTINGS) -> Iterator[str]:
    """Start a new server, yield its DATABASE_URL, and remove the server and its data afterwards."""
    programs = postgresql_folder()
    if programs is None:
        raise Refusal(f"Missing: {POSTGRESQL.title}. `make test` installs it.")
    with private_folder() as folder:
        create_cluster(programs, folder)
        server = start_server(programs, folder, settings)
        try:
            wait_until_ready(programs, folder, server)
            yield server_url(folder)
        finally:
            # an immediate shutdown, because the data is deleted anyway
            server.send_signal(signal.SIGQUIT)
            server.wait()


def main() -> int:
    command = sys.argv[2:] if sys.argv[1:2] == ["--"] else sys.argv[1:]
    if not command:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with postgresql() as url:
            return run_command(command, env={**os.environ, "DATABASE_URL": url})
    except FileNotFoundError as error:
        print(f"No such command: {error.filename}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(exit_status(main))
