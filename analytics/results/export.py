"""Export a report's table as CSV, Parquet or JSON Lines: into a file, or in chunks while it is downloaded."""

import csv
import io
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.analyses import AnalysisError
from analytics.arrow import arrow_schema
from analytics.results.manifest import ReportManifest
from analytics.results.read import result_batches
from analytics.tables import Table
from entities.frozen import frozen

Batches = Iterable[pa.RecordBatch]
WriteBatch = Callable[[pa.RecordBatch], object]

_CSV_FLAGS = {True: "true", False: "false", None: ""}
# A spreadsheet treats a cell that begins with one of these characters as a formula; some also with the wide
# ones of East Asia.
FORMULA_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class ExportFailed(AnalysisError):
    """The file could not be written completely."""

    status = 503


@frozen
class ExportFormat:
    """A file format of exports.

    open_writer: takes a file and a schema, and returns a context with a function that writes a batch of rows
    to the file.
    """

    title: str
    media_type: str
    open_writer: Callable[[IO[bytes], pa.Schema], AbstractContextManager[WriteBatch]]


@contextmanager
def _open_csv(
    file: IO[bytes], schema: pa.Schema, *, is_for_spreadsheets: bool = False
) -> Iterator[WriteBatch]:
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    lines = csv.writer(_LineFeeds(text))
    lines.writerow(schema.names)
    yield lambda batch: lines.writerows(
        zip(*(_csv_values(column, is_for_spreadsheets) for column in batch.columns), strict=True)
    )
    text.flush()
    text.detach()


class _LineFeeds:
    """A file that replaces the line ends of csv.writer with line feeds.

    csv.writer quotes a value with a carriage return only if its line ends contain one too, so they cannot be
    changed there.
    """

    def __init__(self, text: io.TextIOBase) -> None:
        self._text = text

    def write(self, line: str) -> int:
        return self._text.write(line.removesuffix("\r\n") + "\n")


def without_formula(text: str) -> str:
    """Return the text, after an apostrophe if a spreadsheet would read it as a formula."""
    return f"'{text}" if text.startswith(FORMULA_BEGINNINGS) else text


def _csv_values(column: pa.Array, is_for_spreadsheets: bool) -> list:
    values = column.to_pylist()
    if pa.types.is_boolean(column.type):
        return [_CSV_FLAGS[value] for value in values]
    if is_for_spreadsheets and pa.types.is_string(column.type):
        return [value and without_formula(value) for value in values]
    return values


@contextmanager
def _open_parquet(file: IO[bytes], schema: pa.Schema) -> Iterator[WriteBatch]:
    with pq.ParquetWriter(file, schema) as writer:
        yield writer.write_batch


@contextmanager
def _open_jsonl(file: IO[bytes], schema: pa.Schema) -> Iterator[WriteBatch]:
    def write(batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    yield write


# By file extension.
EXPORT_FORMATS = {
    ".csv": ExportFormat("CSV", "text/csv", _open_csv),
    ".parquet": ExportFormat("Parquet", "application/vnd.apache.parquet", _open_parquet),
    ".jsonl": ExportFormat("JSON Lines", "application/x-ndjson", _open_jsonl),
}
# A downloaded CSV file is usually opened in a spreadsheet.
DOWNLOAD_FORMATS = EXPORT_FORMATS | {
    ".csv": ExportFormat("CSV", "text/csv", partial(_open_csv, is_for_spreadsheets=True))
}


def check_export_path(path: Path) -> None:
    """Raise AnalysisError if `path` cannot be written. Call it before anything is computed."""
    if path.suffix.lower() not in EXPORT_FORMATS:
        raise AnalysisError(
            f"{path}: the extension selects the format; it must be one of {', '.join(EXPORT_FORMATS)}"
        )
    if path.is_dir():
        raise AnalysisError(f"{path} is a folder")
    if not path.parent.is_dir():
        raise AnalysisError(f"{path}: there is no folder {path.parent}")
    # the permissions of the folder do not tell everything: its file system can be read-only, or the name too long
    temporary = _temporary(path)
    try:
        temporary.touch(exist_ok=False)
        temporary.unlink()
    except OSError as error:
        raise ExportFailed(
            f"{path} cannot be written ({error.strerror or error}): choose another file or folder"
        ) from error


def _temporary(path: Path) -> Path:
    """Return a new name beside a file, under which it is written."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def export_table(
    table: Table,
    folder: str,
    path: Path,
    formats: Mapping[str, ExportFormat] = EXPORT_FORMATS,
    manifest: ReportManifest | None = None,
) -> int:
    """Write a table of a report to `path`, sorted by its key. Return the number of rows.

    Raise AnalysisError if a file cannot be read or written. The rows go to a temporary file first, so `path`
    is complete or unchanged.
    folder: the folder of the report, below SNAPSHOT_URI.
    formats: DOWNLOAD_FORMATS for files that leave the console through a browser or the REST API. manifest:
    the manifest of a signed report.
    """
    temporary = _temporary(path)
    rows, schema = 0, arrow_schema(table)
    try:
        with temporary.open("xb") as file, formats[path.suffix.lower()].open_writer(file, schema) as write:
            for batch in _with_schema(result_batches(table, folder, manifest=manifest), schema):
                rows += batch.num_rows
                write(batch)
        temporary.replace(path)
    except OSError as error:
        raise ExportFailed(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return rows


def export_chunks(table: Table, batches: Batches, export_format: ExportFormat) -> Iterator[bytes]:
    """Yield a file with these batches in chunks. Each chunk is built when it is requested."""
    buffer, schema = _ChunkBuffer(), arrow_schema(table)
    with export_format.open_writer(cast(IO[bytes], buffer), schema) as write:
        yield buffer.pop_chunk()
        for batch in _with_schema(batches, schema):
            write(batch)
            yield buffer.pop_chunk()
    yield buffer.pop_chunk()


def _with_schema(batches: Batches, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the batches with the schema of the table. In files written by Spark every column is nullable."""
    return (pa.record_batch(batch.columns, schema=schema) for batch in batches)


class _ChunkBuffer(io.RawIOBase):
    """A file that can only be appended to.

    `pop_chunk` removes and returns the bytes written since the last call.
    """

    def __init__(self) -> None:
        self._buffer, self._written = io.BytesIO(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = self._buffer.write(data)
        self._written += size
        return size

    def tell(self) -> int:
        return self._written

    def pop_chunk(self) -> bytes:
        chunk, self._buffer = self._buffer.getvalue(), io.BytesIO()
        return chunk
