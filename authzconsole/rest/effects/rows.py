"""Write the changed decisions of an effect as CSV or JSON Lines."""

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa
from django.http import StreamingHttpResponse
from django.utils.cache import patch_cache_control

from analytics.arrow import arrow_schema
from analytics.results.export import DOWNLOAD_FORMATS, export_chunks
from analytics.tables import Column, ColumnType, Table
from grants.effects.effect import Effect, EffectRow, RowFilter

TABLE = Table("effect", (
    *(Column(name, ColumnType.TEXT) for name in ("user", "entity", "operation")),
    *(Column(name, ColumnType.FLAG) for name in ("before", "after", "intended")),
), ("user", "entity", "operation"))
ROWS_PER_BATCH = 5_000


def effect_rows_response(effect: Effect, extension: str, filename: str, where: RowFilter) -> StreamingHttpResponse:
    """Return the rows of an effect as a streamed file with the name `filename` and the extension `csv` or `jsonl`."""
    form = DOWNLOAD_FORMATS[f".{extension}"]
    batches = _batches(effect.rows(where))
    response = StreamingHttpResponse(export_chunks(TABLE, batches, form), content_type=f"{form.media_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{filename}.{extension}"'
    patch_cache_control(response, private=True, no_store=True)
    return response


def _batches(rows: Iterator[EffectRow]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(TABLE)
    while batch := list(islice(rows, ROWS_PER_BATCH)):
        yield pa.RecordBatch.from_pylist([row._asdict() for row in batch], schema)
