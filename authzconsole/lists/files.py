"""Send a list as a file, in chunks that are built while the file is sent."""

import json
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from django.http import Http404, StreamingHttpResponse
from django.utils.cache import patch_cache_control

from analytics.arrow import arrow_schema
from analytics.results.export import DOWNLOAD_FORMATS, export_chunks
from analytics.tables import Table
from authzconsole.lists.base import List
from grants.bulk_rows import chunks

ROWS_PER_BATCH = 5_000


def list_file(listed: List, extension: str) -> StreamingHttpResponse:
    """Return the response with all rows of a list. It must not be cached.

    extension: of DOWNLOAD_FORMATS, without the dot. Raise Http404 if the list has no such format.
    """
    if extension not in listed.extensions:
        raise Http404("there is no such file format")
    form, table = DOWNLOAD_FORMATS[f".{extension}"], listed.table()
    content = (
        _json_lines(listed.objects())
        if extension == "jsonl" and listed.has_objects
        else export_chunks(table, _batches(table, listed.file_rows()), form)
    )
    response = StreamingHttpResponse(content, content_type=f"{form.media_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{listed.file_name}.{extension}"'
    patch_cache_control(response, private=True, no_store=True)
    return response


def _json_lines(objects: Iterable[dict]) -> Iterator[bytes]:
    for chunk in chunks(json.dumps(row, ensure_ascii=False) for row in objects):
        yield "".join(f"{line}\n" for line in chunk).encode()


def _batches(table: Table, rows: Iterable[dict]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(table)
    for chunk in chunks(rows, ROWS_PER_BATCH):
        yield pa.RecordBatch.from_pylist(chunk, schema)


def download_links(listed: type[List], url: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return the title and the URL of each format. url: returns the URL for an extension."""
    return [(DOWNLOAD_FORMATS[f".{extension}"].title, url(extension)) for extension in listed.extensions]
