"""Reuse the migrated SQLite database of an earlier test run: the migrations take 10 seconds of CPU time."""

import hashlib
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from django.db import connection

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "var" / "test"


def template_path() -> Path:
    """Return the file for a database with exactly these migrations and packages."""
    digest = hashlib.sha256()
    for path in sorted([*ROOT.glob("*/migrations/*.py"), *ROOT.glob("requirements/*.txt")]):
        digest.update(f"{path.relative_to(ROOT)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return FOLDER / f"migrated-{digest.hexdigest()[:16]}.sqlite3"


def is_sqlite() -> bool:
    return connection.vendor == "sqlite"


def copy_template() -> bool:
    """Create the test database from the template. Return whether there is one."""
    if not is_sqlite() or not (template := template_path()).is_file():
        return False
    Path(connection.settings_dict["TEST"]["NAME"]).write_bytes(template.read_bytes())
    return True


def save_template() -> None:
    """Keep a copy of the migrated test database for later runs, and delete those of older migrations."""
    if not is_sqlite():
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    template = template_path()
    for old in FOLDER.glob("migrated-*.sqlite3"):
        old.unlink(missing_ok=True)
    # processes of one run may save it at the same time
    unfinished = template.with_name(f"{template.stem}-{os.getpid()}.tmp")
    connection.ensure_connection()
    with closing(sqlite3.connect(unfinished)) as copy:
        connection.connection.backup(copy)
    unfinished.replace(template)
