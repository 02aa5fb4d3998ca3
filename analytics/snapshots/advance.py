"""Advance a snapshot by journal lines: reuse the files that the lines did not change.

Each part of the tables of entities and grants contains the rows of a range of entity ids. A journal line about a grant
or an entity names the entity, so it says which part changes. The changed parts, and all other tables, which are small,
are read from the database again. So no line is replayed, and the result equals a full snapshot.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import reduce
from operator import or_

from django.db.models import Max, Q, QuerySet
from pyarrow.fs import FileSystem

from analytics.snapshots.stored import Snapshot
from analytics.storage import link_or_copy
from analytics.tables import Table
from entities.address import Address, address_or_none
from entities.frozen import frozen
from entities.models import Entity
from entities.selectors import entities_at
from grants.journal import ACTIONS, GRANT_ACTIONS, SEAL, STATE_ACTIONS
from grants.models import PRINCIPAL_TYPES, JournalLine
from grants.policies.times import parse_time
from grants.validity import period_change_condition

# A tenant has at most so many parts, and more than half as many if it is large.
PARTS = 64
LEAST_ENTITIES_PER_PART = 8_192
# beyond these limits, a full snapshot is about as fast
MOST_CHANGES = 1_000
MOST_CHANGED_PARTS = 16
# The actions that change the rows of an entity or of grants on it. A line of these actions without an entity is about the
# period of a membership and changes none of these rows.
_ENTITY_ACTIONS = {*GRANT_ACTIONS, *STATE_ACTIONS, "describe"}


@frozen
class Base:
    """An older snapshot, and the numbers of the parts that changed since then."""

    snapshot: Snapshot
    entities_per_part: int
    changed_parts: frozenset[int]

    def changed_rows(self, tables: Iterable[QuerySet], column: str) -> tuple[QuerySet, ...]:
        """Return only the rows of the changed parts. column: of the id of the entity."""
        if not self.changed_parts:
            return ()
        size = self.entities_per_part
        is_changed = reduce(
            or_,
            (
                Q(**{f"{column}__gte": part * size, f"{column}__lt": (part + 1) * size})
                for part in self.changed_parts
            ),
        )
        return tuple(rows.filter(is_changed) for rows in tables)

    def reuse_files(self, table: Table, filesystem: FileSystem, folder: str) -> list[str]:
        """Put the unchanged files of a table into the folder of the new snapshot. Return their paths within it.

        On a file system of this machine they are hard links, elsewhere the storage copies them.
        """
        start = f"{table.name}/part-"
        paths = [
            file.path
            for file in self.snapshot.files
            if file.path.startswith(start)
            and int(file.path.removeprefix(start)[:5]) not in self.changed_parts
        ]
        filesystem.create_dir(f"{folder}/{table.name}")
        for path in paths:
            link_or_copy(filesystem, f"{self.snapshot.path}/{path}", f"{folder}/{path}")
        return paths


def entities_per_part() -> int:
    """Return how many ids of entities a part of a full snapshot contains: a power of two. Runs one query."""
    newest = Entity.objects.aggregate(newest=Max("id"))["newest"] or 0
    return max(LEAST_ENTITIES_PER_PART, 1 << (newest // PARTS).bit_length())


def base_of(snapshot: Snapshot, contents: Mapping, revision: int, at: datetime) -> Base | None:
    """Return an older snapshot as the base of a new one. Return None if a full snapshot is necessary.

    contents: of the verified manifest. revision, at: of the new snapshot.
    A full snapshot is necessary after too many changes, after an action that is not known or a seal, which accepts a
    break of the journal, if an address was removed, if the clock was set back, or if the journal was replaced.
    Runs at most five queries, and one for every `entities.selectors.BATCH_SIZE` changed entities.
    """
    since, base_at = contents["revision"], parse_time(contents["at"])
    size = contents["entities_per_part"]
    has_base_line = not since or JournalLine.objects.filter(revision=since, hash=contents["hash"]).exists()
    if not has_base_line or at < base_at or size != entities_per_part():
        return None
    addresses = _changed_addresses(since, revision)
    if addresses is None:
        return None
    changed = {entity.pk for entity in entities_at(addresses).values()}
    if len(changed) != len(addresses):
        return None
    for row in PRINCIPAL_TYPES.values():
        changed.update(
            row.held_grants.filter(period_change_condition(base_at, at))
            .order_by()
            .values_list("content_object_id", flat=True)[: MOST_CHANGES + 1]
        )
    parts = frozenset(pk // size for pk in changed)
    if len(changed) > MOST_CHANGES or len(parts) > MOST_CHANGED_PARTS:
        return None
    return Base(snapshot, size, parts)


def _changed_addresses(since: int, revision: int) -> set[Address] | None:
    """Return the entities that the journal lines of these revisions name; None if the lines do not say what changed."""
    lines = list(
        JournalLine.objects.filter(revision__gt=since, revision__lte=revision)
        .order_by("revision")
        .values_list("action", "entity")[: MOST_CHANGES + 1]
    )
    if len(lines) > MOST_CHANGES:
        return None
    changed, deleted = set(), set()
    for action, entity in lines:
        if action not in ACTIONS or action == SEAL:
            return None
        if action in _ENTITY_ACTIONS and entity:
            if (address := address_or_none(entity)) is None:
                return None
            changed.add(address)
        if action == "delete":
            deleted.add(entity)
        elif action in ("plan", "register") and entity in deleted:
            # perhaps its row was removed, and the new one has another id
            return None
    return changed
