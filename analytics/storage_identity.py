"""The identity of this console in a storage that several consoles can share.

The identity is a random UUID in the database. It names the folders of the console's snapshots and reports.
INVARIANT: a console deletes only folders with its own identity, unless no other console can use the storage.
"""

import hashlib
import os
import uuid
from pathlib import Path

from django.conf import settings
from django.db import connection

from analytics.models import StorageIdentity
from analytics.storage import storage_root
from grants.authority.transactions import administrator_transaction
from grants.journal import Author, JournalEntry, append_to_journal


def storage_identity() -> str:
    """Return the name of this console's folders.

    Runs one query, and an insertion if the database has no identity.
    """
    row, _ = StorageIdentity.objects.get_or_create(pk=1)
    return str(row.value)


def change_storage_identity(*, author: Author) -> tuple[str, str]:
    """Give this database a new identity, because it is a copy of another console's. Return the old and the
    new one.

    Existing reports stay readable in their folders, which this console no longer deletes.
    """
    with administrator_transaction(author) as head:
        old, new = storage_identity(), uuid.uuid4()
        StorageIdentity.objects.filter(pk=1).update(value=new)
        append_to_journal(head, [JournalEntry("storage-identity", detail=f"{old} to {new}")], author=author)
    return old, str(new)


def deletable_prefix() -> str:
    """Return the prefix of the paths, below SNAPSHOT_URI, that this console may delete.

    Runs at most one query.
    """
    return "results/" if is_storage_private() else f"results/{storage_identity()}/"


def is_storage_private() -> bool:
    """Return whether the storage is inside STATE_DIR, so that no other console uses it."""
    uri = settings.SNAPSHOT_URI
    if "://" in uri and not uri.startswith("file://"):
        return False
    return Path(os.path.realpath(storage_root()[1])).is_relative_to(os.path.realpath(settings.STATE_DIR))


def former_identity() -> str:
    """Return the name that version 1.0 used: a hash of the database's address.

    Two consoles can have the same one.
    """
    connection_settings = connection.settings_dict
    text = "\n".join(str(connection_settings[name]) for name in ("HOST", "PORT", "NAME"))
    return f"{connection.vendor}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
