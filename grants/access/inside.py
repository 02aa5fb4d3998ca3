"""Load the grants of holders inside containers: the first few of many holders at once, or all of one holder
in chunks.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, groupby
from operator import itemgetter

from django.db import connection
from django.db.models import F, Value
from django.db.models.functions import Collate, Concat

from entities.models import Entity, State
from entities.vocabulary import Privilege
from grants.access.paths import Path
from grants.bulk_rows import database_time
from grants.evaluation.raw_statement import fetch_rows
from grants.holders import byte_order
from grants.models import GRANT_TABLES, permission_ids, privilege_of
from grants.validity import in_force, in_force_sql, question_time

ROWS_PER_CHUNK = 2_000
_CONTAINER_COLUMNS = {"namespace": "namespace_id", "application": "application_id"}


@dataclass(frozen=True, slots=True)
class HolderKey:
    """A principal with grants. type: `user` or `group`."""

    type: str
    pk: int
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


@dataclass(frozen=True, slots=True)
class InsideLookup:
    """The grants of `holder` on `container` or inside it.

    privilege: if it is set, only grants of this privilege on live entities inside the container, but not on
    the container.
    kind: only entities of this kind; None for every kind.
    at: the time at which the grants are in force, by default that of the question.
    """

    holder: HolderKey
    container: Entity
    privilege: Privilege | None = None
    kind: str | None = None
    at: datetime = field(default_factory=question_time)

    @property
    def shape(self) -> tuple[str, str, bool, bool]:
        """The properties on which the text of the statement depends."""
        return self.holder.type, self.container.kind, self.privilege is not None, self.kind is not None

    def all_paths(self) -> Iterator[Path]:
        """Yield all paths, sorted. They are read in chunks, so memory does not grow with their number."""
        model, column = GRANT_TABLES[self.holder.type]
        rows = model.objects.filter(**{column: self.holder.pk}, **in_force(at=self.at))
        if self.container.kind in _CONTAINER_COLUMNS:
            rows = rows.filter(**{_CONTAINER_COLUMNS[self.container.kind]: self.container.pk})
        if self.privilege is not None:
            rows = rows.filter(
                permission_id=permission_ids()[self.privilege], content_object__state=State.LIVE
            )
            rows = rows.exclude(content_object_id=self.container.pk)
        if self.kind is not None:
            rows = rows.filter(content_object__kind=self.kind)
        address = Collate(
            Concat(F("content_object__kind"), Value(":"), F("content_object__key")), byte_order()
        )
        pairs = rows.annotate(address=address).order_by("address").values_list("address", "permission_id")
        for entity, grants in groupby(pairs.iterator(chunk_size=ROWS_PER_CHUNK), key=itemgetter(0)):
            for privilege in sorted(str(privilege_of(permission)) for _, permission in grants):
                yield Path(str(self.holder), entity, privilege)


@dataclass(frozen=True, slots=True)
class GrantsInside:
    """The first grants that a lookup found. rows: (id of the entity, path), those with the lowest ids if
    there are more.
    """

    lookup: InsideLookup
    rows: tuple[tuple[int, Path], ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class PathsInside:
    """The paths of one subject inside a container, through all its holders; see
    `grants.access.paths.PathSource`.
    """

    parts: tuple[GrantsInside, ...]
    listed_paths: tuple[Path, ...]
    is_complete: bool

    def __iter__(self) -> Iterator[Path]:
        # all paths of a holder have the same principal, so the lists of the holders follow each other
        by_holder = sorted(self.parts, key=lambda part: str(part.lookup.holder))
        return chain.from_iterable(
            sorted(path for _, path in part.rows) if part.is_complete else part.lookup.all_paths()
            for part in by_holder
        )


def paths_inside(parts: Sequence[GrantsInside]) -> PathsInside:
    """Return the paths of all these lookups, which have the same container."""
    incomplete = [part for part in parts if not part.is_complete]
    rows = [row for part in parts for row in part.rows]
    if incomplete and incomplete[0].lookup.privilege is not None:
        # List only entities of which the grants of every holder are loaded: then a single listed grant is the
        # only one.
        last = min(part.rows[-1][0] for part in incomplete)
        rows = [row for row in rows if row[0] <= last]
    return PathsInside(tuple(parts), tuple(sorted(path for _, path in rows)), not incomplete)


def grants_inside(lookups: Sequence[InsideLookup], max_paths: int) -> dict[InsideLookup, GrantsInside]:
    """Return the first `max_paths` grants of each lookup. Runs one query for each shape of lookups, so at
    most two for users and groups if all lookups are about one kind of container and one leaf."""
    by_shape: dict[tuple, list[InsideLookup]] = defaultdict(list)
    for lookup in dict.fromkeys(lookups):
        by_shape[lookup.shape].append(lookup)
    found = {}
    for shape, group in by_shape.items():
        for lookup, text in zip(group, _texts(shape, group, max_paths + 1), strict=True):
            rows = [_row(lookup.holder, line) for line in text.split("\n")] if text else []
            found[lookup] = GrantsInside(lookup, tuple(rows[:max_paths]), len(rows) <= max_paths)
    return found


def _row(holder: HolderKey, line: str) -> tuple[int, Path]:
    permission, entity_id, address = line.split(" ", 2)
    return int(entity_id), Path(str(holder), address, str(privilege_of(int(permission))))


def _texts(
    shape: tuple[str, str, bool, bool], lookups: Sequence[InsideLookup], limit: int
) -> list[str | None]:
    ids = permission_ids()
    rows = [
        (
            number,
            lookup.holder.pk,
            lookup.container.pk,
            ids[lookup.privilege] if lookup.privilege else 0,
            lookup.kind or "",
            str(database_time(lookup.at)),
        )
        for number, lookup in enumerate(lookups)
    ]
    texts: list[str | None] = [None] * len(lookups)
    for number, text in fetch_rows(_statement(*shape), [json.dumps(rows), limit]):
        texts[number] = text
    return texts


def _statement(holder_type: str, container_kind: str, has_privilege: bool, has_kind: bool) -> str:
    """Return the statement for lookups of this shape: each is a subquery that reads the first rows of an
    index.

    A row of the result is (number of the lookup, lines with permission, id and address of the entity).
    """
    model, column = GRANT_TABLES[holder_type]
    entity = Entity._meta.db_table
    conditions = [f"g.{column} = a.holder", in_force_sql("g", "a.at")]
    if container_kind in _CONTAINER_COLUMNS:
        conditions.append(f"g.{_CONTAINER_COLUMNS[container_kind]} = a.container")
    order = "g.permission_id, g.content_object_id"
    if has_privilege:
        order = "g.content_object_id"
        is_kind = " AND d.kind = a.kind" if has_kind else ""
        conditions += [
            "g.permission_id = a.permission",
            "g.content_object_id <> a.container",
            f"(SELECT 1 FROM {entity} d WHERE d.id = g.content_object_id AND d.state = '{State.LIVE}'{is_kind} "
            f"LIMIT 1) IS NOT NULL",
        ]
    line = (
        f"CAST(g.permission_id AS text) || ' ' || CAST(g.content_object_id AS text) || ' ' || "
        f"(SELECT e.kind || ':' || e.key FROM {entity} e WHERE e.id = g.content_object_id)"
    )
    grants = (
        f"SELECT {line} AS line FROM {model._meta.db_table} g WHERE {' AND '.join(conditions)} "
        f"ORDER BY {order} LIMIT CAST(%s AS bigint)"
    )
    if connection.vendor == "postgresql":
        values = ", ".join(
            f"CAST(value ->> {position} AS {sql_type}) AS {name}"
            for position, (name, sql_type) in enumerate(_COLUMNS.items())
        )
        source = f"SELECT {values} FROM jsonb_array_elements(CAST(%s AS jsonb)) AS element(value)"
        lines = "string_agg(h.line, chr(10))"
    else:
        values = ", ".join(
            f"json_extract(value, '$[{position}]') AS {name}" for position, name in enumerate(_COLUMNS)
        )
        source, lines = f"SELECT {values} FROM json_each(%s)", "group_concat(h.line, char(10))"
    return f"WITH a AS ({source}) SELECT a.no, (SELECT {lines} FROM ({grants}) h) FROM a"


_COLUMNS = {
    "no": "bigint",
    "holder": "bigint",
    "container": "bigint",
    "permission": "bigint",
    "kind": "text",
    "at": "timestamptz",
}
