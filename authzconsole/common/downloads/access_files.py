"""Write lists of access as CSV and JSON Lines, in chunks."""

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa
from django.http import StreamingHttpResponse
from django.utils.cache import patch_cache_control

from analytics.arrow import arrow_schema
from analytics.results.export import DOWNLOAD_FORMATS, export_chunks
from analytics.tables import Column, ColumnType, Table
from entities.address import Address
from grants.access.entity_pages import EntityAccess
from grants.access.paths import Path, Ways
from grants.access.who_can import UserAccess
from grants.bulk_rows import chunks

EXTENSIONS = ("csv", "jsonl")


def _table(name: str, *columns: str) -> Table:
    texts = tuple(Column(column, ColumnType.TEXT) for column in (*columns, "operation", "principal", "granted_on", "privilege"))
    return Table(name, (*texts, Column("only", ColumnType.FLAG)), columns)


WHO_CAN, WHAT_CAN = _table("who-can", "entity", "user"), _table("what-can", "entity")


def path_as_json(path: Path) -> dict:
    return {"principal": path.principal, "entity": path.entity, "privilege": path.privilege}


def ways_as_json(ways: Ways, *, is_complete: bool = False) -> dict:
    """Return the paths of an operation, those without which it is denied, and whether all paths are listed.

    is_complete: list all paths, even if there are more than were loaded.
    """
    paths = list(ways) if is_complete else ways.listed
    return {"paths": [path_as_json(path) for path in paths], "only": [path_as_json(path) for path in paths if path in ways.only],
            "complete": is_complete or ways.is_complete}


def who_can_file(rows: Iterable[tuple[Address, UserAccess]], extension: str, name: str) -> StreamingHttpResponse:
    """Return the response with a line for each path (CSV), or for each operation of a user (JSON Lines)."""
    flat = (({"entity": str(address), "user": access.user, "operation": operation}, ways)
            for address, access in rows for operation, ways in access.ways.items())
    return _file(flat, WHO_CAN, extension, name)


def what_can_file(rows: Iterable[EntityAccess], extension: str, name: str) -> StreamingHttpResponse:
    """Return the response with a line for each path (CSV), or for each operation on an entity (JSON Lines)."""
    flat = (({"entity": str(row.address), "operation": operation}, ways) for row in rows for operation, ways in row.ways.items())
    return _file(flat, WHAT_CAN, extension, name)


def _file(rows: Iterable[tuple[dict, Ways]], table: Table, extension: str, name: str) -> StreamingHttpResponse:
    form = DOWNLOAD_FORMATS[f".{extension}"]
    content = _json_lines(rows) if extension == "jsonl" else export_chunks(table, _batches(table, rows), form)
    response = StreamingHttpResponse(content, content_type=f"{form.media_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.{extension}"'
    patch_cache_control(response, private=True, no_store=True)
    return response


def _json_lines(rows: Iterable[tuple[dict, Ways]]) -> Iterator[bytes]:
    lines = (json.dumps(row | ways_as_json(ways, is_complete=True), ensure_ascii=False) for row, ways in rows)
    for chunk in chunks(lines):
        yield "".join(f"{line}\n" for line in chunk).encode()


def _batches(table: Table, rows: Iterable[tuple[dict, Ways]]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(table)
    for chunk in chunks(_path_rows(rows)):
        yield pa.RecordBatch.from_pylist(chunk, schema)


def _path_rows(rows: Iterable[tuple[dict, Ways]]) -> Iterator[dict]:
    for row, ways in rows:
        is_empty = True
        for path in ways:
            is_empty = False
            yield row | {"principal": path.principal, "granted_on": path.entity, "privilege": path.privilege,
                         "only": path in ways.only}
        if is_empty:
            # the operation needs no grant
            yield row | {"principal": "", "granted_on": "", "privilege": "", "only": False}
