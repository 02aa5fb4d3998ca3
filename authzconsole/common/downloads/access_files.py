"""Write lists of access as CSV and JSON Lines."""

from collections.abc import Iterable, Iterator

from django.http import StreamingHttpResponse

from analytics.tables import Column, ColumnType, Table
from authzconsole.common.downloads.table_files import table_file
from entities.address import Address
from grants.access.entity_pages import EntityAccess
from grants.access.paths import Path, Ways
from grants.access.who_can import UserAccess
from grants.policies.policy import Generation
from grants.policies.wording import rule_in_words

EXTENSIONS = ("csv", "jsonl")


def _table(name: str, *columns: str) -> Table:
    texts = tuple(
        Column(column, ColumnType.TEXT)
        for column in (*columns, "operation", "principal", "granted_on", "privilege")
    )
    return Table(name, (*texts, Column("only", ColumnType.FLAG), Column("rule", ColumnType.TEXT)), columns)


WHO_CAN, WHAT_CAN = _table("who-can", "entity", "user"), _table("what-can", "entity")


def path_as_json(path: Path) -> dict:
    return {"principal": path.principal, "entity": path.entity, "privilege": path.privilege}


def ways_as_json(ways: Ways, *, is_complete: bool = False) -> dict:
    """Return the paths of an operation, those without which it is denied, and whether all paths are listed.

    is_complete: list all paths, even if there are more than were loaded.
    """
    paths = list(ways) if is_complete else ways.listed_paths
    return {
        "paths": [path_as_json(path) for path in paths],
        "only": [path_as_json(path) for path in paths if path in ways.only],
        "complete": is_complete or ways.is_complete,
    }


def permission_as_json(entity: Address, operation: str, generation: Generation) -> dict:
    """Return the members of a permitted operation, without those of its paths."""
    rule = rule_in_words(generation.policy(entity.kind, operation))
    return {"entity": str(entity), "operation": operation, "rule": rule}


def who_can_file(
    rows: Iterable[tuple[Address, UserAccess]], generation: Generation, extension: str, name: str
) -> StreamingHttpResponse:
    """Return the response with a line for each path (CSV), or for each operation of a user (JSON Lines)."""
    flat = (
        (permission_as_json(address, operation, generation) | {"user": access.user}, ways)
        for address, access in rows
        for operation, ways in access.ways.items()
    )
    return _file(flat, WHO_CAN, extension, name)


def what_can_file(
    rows: Iterable[EntityAccess], generation: Generation, extension: str, name: str
) -> StreamingHttpResponse:
    """Return the response with a line for each path (CSV), or for each operation on an entity (JSON Lines)."""
    flat = (
        (permission_as_json(row.address, operation, generation), ways)
        for row in rows
        for operation, ways in row.ways.items()
    )
    return _file(flat, WHAT_CAN, extension, name)


def _file(
    rows: Iterable[tuple[dict, Ways]], table: Table, extension: str, name: str
) -> StreamingHttpResponse:
    objects = (row | ways_as_json(ways, is_complete=True) for row, ways in rows)
    return table_file(table, extension, name, objects=objects, rows=_path_rows(rows))


def _path_rows(rows: Iterable[tuple[dict, Ways]]) -> Iterator[dict]:
    for row, ways in rows:
        is_empty = True
        for path in ways:
            is_empty = False
            yield row | {
                "principal": path.principal,
                "granted_on": path.entity,
                "privilege": path.privilege,
                "only": path in ways.only,
            }
        if is_empty:
            # the operation needs no grant
            yield row | {"principal": "", "granted_on": "", "privilege": "", "only": False}
