"""Write differences between two revisions as CSV and JSON Lines, in chunks."""

import dataclasses
import json
from collections.abc import Iterable, Iterator

import pyarrow as pa
from django.http import StreamingHttpResponse
from django.utils.cache import patch_cache_control

from analytics.arrow import arrow_schema
from analytics.results.export import DOWNLOAD_FORMATS, export_chunks
from analytics.tables import Column, ColumnType, Table
from grants.bulk_rows import chunks
from grants.history.differences import Difference

_COLUMNS = tuple(field.name for field in dataclasses.fields(Difference))
_TABLE = Table("differences", tuple(Column(name, ColumnType.TEXT) for name in _COLUMNS), ("what", "principal", "entity", "value"))


def difference_as_json(difference: Difference) -> dict:
    """Return the members of a difference; its time is a text."""
    at = difference.at.isoformat().replace("+00:00", "Z") if difference.at else None
    return dataclasses.asdict(difference) | {"at": at}


def difference_file(differences: Iterable[Difference], extension: str) -> StreamingHttpResponse:
    """Return the response with one line for each difference."""
    form = DOWNLOAD_FORMATS[f".{extension}"]
    content = _json_lines(differences) if extension == "jsonl" else export_chunks(_TABLE, _batches(differences), form)
    response = StreamingHttpResponse(content, content_type=f"{form.media_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="differences.{extension}"'
    patch_cache_control(response, private=True, no_store=True)
    return response


def _json_lines(differences: Iterable[Difference]) -> Iterator[bytes]:
    for chunk in chunks(json.dumps(difference_as_json(difference), ensure_ascii=False) for difference in differences):
        yield "".join(f"{line}\n" for line in chunk).encode()


def _batches(differences: Iterable[Difference]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(_TABLE)
    rows = ({name: str(value or "") for name, value in difference_as_json(difference).items()} for difference in differences)
    for chunk in chunks(rows):
        yield pa.RecordBatch.from_pylist(chunk, schema)
