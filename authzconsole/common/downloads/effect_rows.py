"""Write the changed decisions of an effect, and what a plan does not keep, as CSV or JSON Lines."""

from collections.abc import Iterable

from django.http import StreamingHttpResponse

from analytics.tables import Column, ColumnType, Table
from authzconsole.common.downloads.table_files import table_file
from grants.effects.effect import RowFilter
from grants.effects.known_effect import KnownEffect
from grants.plans.regrants.kept_not import KeptNot

TABLE = Table(
    "effect",
    (
        *(Column(name, ColumnType.TEXT) for name in ("user", "entity", "operation")),
        *(Column(name, ColumnType.FLAG) for name in ("before", "after", "intended")),
    ),
    ("user", "entity", "operation"),
)
KEPT_NOT = Table(
    "kept-not",
    tuple(Column(name, ColumnType.TEXT) for name in KeptNot._fields),
    ("user", "entity", "operation"),
)


def effect_rows_response(
    effect: KnownEffect, extension: str, filename: str, where: RowFilter
) -> StreamingHttpResponse:
    """Return the rows of an effect as a streamed file with the name `filename` and the extension `csv` or
    `jsonl`.
    """
    return table_file(TABLE, extension, filename, rows=(row._asdict() for row in effect.rows(where)))


def kept_not_response(rows: Iterable[KeptNot], extension: str, filename: str) -> StreamingHttpResponse:
    """Return what a plan does not keep as a streamed file; see `effect_rows_response`."""
    return table_file(KEPT_NOT, extension, filename, rows=(row._asdict() for row in rows))
