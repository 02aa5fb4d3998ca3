"""Write access requests as CSV and JSON Lines."""

from collections.abc import Iterable

from django.http import StreamingHttpResponse

from analytics.tables import Column, ColumnType, Table
from authzconsole.common.downloads.table_files import table_file

COLUMNS = (
    "number",
    "subject",
    "created_by",
    "colleague",
    "parts",
    "reason",
    "valid_until",
    "state",
    "waits_for_answer",
    "created_at",
    "expires_at",
    "decided_at",
)
_TABLE = Table("access-requests", tuple(Column(name, ColumnType.TEXT) for name in COLUMNS), ("number",))


def request_file(rows: Iterable[dict], extension: str) -> StreamingHttpResponse:
    """Return the response with one line for each request. rows: the members COLUMNS; `parts` is a list of
    texts.
    """
    return table_file(
        _TABLE,
        extension,
        _TABLE.name,
        objects=({name: row[name] for name in COLUMNS} for row in rows),
        rows=({name: _text(row[name]) for name in COLUMNS} for row in rows),
    )


def _text(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(value)
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
