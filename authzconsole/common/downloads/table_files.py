"""Stream a table as CSV or in another format, in chunks."""

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa
from django.http import StreamingHttpResponse
from django.utils.cache import patch_cache_control

from analytics.arrow import arrow_schema
from analytics.results.export import DOWNLOAD_FORMATS, export_chunks
from analytics.tables import Table
from grants.bulk_rows import chunks

ROWS_PER_BATCH = 5_000


def table_file(
    table: Table, extension: str, name: str, *, rows: Iterable[dict], objects: Iterable[dict] | None = None
) -> StreamingHttpResponse:
    """Return the response with a file that must not be cached. extension: of DOWNLOAD_FORMATS, without the
    dot.

    objects: the lines of JSON Lines, if they differ from the rows. Only one of the two is read.
    """
    form = DOWNLOAD_FORMATS[f".{extension}"]
    content = (
        _json_lines(objects)
        if objects is not None and extension == "jsonl"
        else export_chunks(table, _batches(table, rows), form)
    )
    response = StreamingHttpResponse(content, content_type=f"{form.media_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.{extension}"'
    patch_cache_control(response, private=True, no_store=True)
    return response


def _json_lines(objects: Iterable[dict]) -> Iterator[bytes]:
    for chunk in chunks(json.dumps(row, ensure_ascii=False) for row in objects):
        yield "".join(f"{line}\n" for line in chunk).encode()


def _batches(table: Table, rows: Iterable[dict]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(table)
    for chunk in chunks(rows, ROWS_PER_BATCH):
        yield pa.RecordBatch.from_pylist(chunk, schema)
