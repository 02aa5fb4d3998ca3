"""A report's table as CSV, Parquet or JSON Lines: into a file, written aside and then renamed, or piece by piece."""

import csv
import io
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.analyses import AnalysisError
from analytics.arrow import arrow_schema
from analytics.results.read import result_batches
from analytics.tables import Table

Batches = Iterable[pa.RecordBatch]
Write = Callable[[pa.RecordBatch], None]

_CSV_FLAGS = {True: "true", False: "false", None: ""}
FORMULA_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r")


class ExportFailed(AnalysisError):
    """The file could not be written to its end."""


@dataclass(frozen=True, slots=True)
class Form:
    """opened: given a file and a schema, a context in which batches of rows are written to it."""

    title: str
    media_type: str
    opened: Callable[[BinaryIO, pa.Schema], AbstractContextManager[Write]]


@contextmanager
def _csv_opened(file: BinaryIO, schema: pa.Schema, *, is_for_spreadsheets: bool = False) -> Iterator[Write]:
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    lines = csv.writer(_Lines(text))
    lines.writerow(schema.names)
    yield lambda batch: lines.writerows(
        zip(*(_csv_column(column, is_for_spreadsheets) for column in batch.columns), strict=True))
    text.flush()
    text.detach()


class _Lines:
    """Ends each line with a line feed alone; csv.writer quotes a carriage return only where its own lines end with one."""

    def __init__(self, text: io.TextIOBase):
        self._text = text

    def write(self, line: str) -> int:
        return self._text.write(line.removesuffix("\r\n") + "\n")


def _csv_column(column: pa.Array, is_for_spreadsheets: bool) -> list:
    values = column.to_pylist()
    if pa.types.is_boolean(column.type):
        return [_CSV_FLAGS[value] for value in values]
    if is_for_spreadsheets and pa.types.is_string(column.type):
        # a spreadsheet would compute it
        return [f"'{value}" if value and value.startswith(FORMULA_BEGINNINGS) else value for value in values]
    return values


@contextmanager
def _parquet_opened(file: BinaryIO, schema: pa.Schema) -> Iterator[Write]:
    with pq.ParquetWriter(file, schema) as writer:
        yield writer.write_batch


@contextmanager
def _jsonl_opened(file: BinaryIO, schema: pa.Schema) -> Iterator[Write]:
    def write(batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    yield write


# by extension
FORMS = {
    ".csv": Form("CSV", "text/csv", _csv_opened),
    ".parquet": Form("Parquet", "application/vnd.apache.parquet", _parquet_opened),
    ".jsonl": Form("JSON Lines", "application/x-ndjson", _jsonl_opened),
}
# what a browser saves is opened by people, and CSV in a spreadsheet
FORMS_FOR_PEOPLE = FORMS | {".csv": Form("CSV", "text/csv", partial(_csv_opened, is_for_spreadsheets=True))}


def export_check(path: Path) -> None:
    """Raises AnalysisError where `path` could not be written; before anything is computed."""
    if path.suffix.lower() not in FORMS:
        raise AnalysisError(f"{path}: the extension says in which form to write; it must be one of {', '.join(FORMS)}")
    if path.is_dir():
        raise AnalysisError(f"{path} is a folder")
    if not path.parent.is_dir():
        raise AnalysisError(f"{path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise AnalysisError(f"{path}: the folder {path.parent} may not be written")


def table_export(table: Table, folder: str, path: Path) -> int:
    """Write a table of a report to `path`, sorted by its key. Returns the number of rows. Raises AnalysisError."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    rows, schema = 0, arrow_schema(table)
    try:
        with aside.open("xb") as file, FORMS[path.suffix.lower()].opened(file, schema) as write:
            for batch in _as_product(result_batches(table, folder), schema):
                rows += batch.num_rows
                write(batch)
        aside.replace(path)
    except OSError as error:
        raise ExportFailed(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)
    return rows


def table_pieces(table: Table, batches: Batches, form: Form) -> Iterator[bytes]:
    """The file of these batches in pieces, each made when it is asked for."""
    pieces, schema = _Pieces(), arrow_schema(table)
    with form.opened(pieces, schema) as write:
        yield pieces.taken()
        for batch in _as_product(batches, schema):
            write(batch)
            yield pieces.taken()
    yield pieces.taken()


def _as_product(batches: Batches, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """In the product's own schema: Spark writes every column as nullable."""
    return (pa.record_batch(batch.columns, schema=schema) for batch in batches)


class _Pieces(io.RawIOBase):
    """A file that is written at one end and taken away at the other."""

    def __init__(self):
        self._held, self._written = io.BytesIO(), 0

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        size = self._held.write(data)
        self._written += size
        return size

    def tell(self) -> int:
        return self._written

    def taken(self) -> bytes:
        held, self._held = self._held.getvalue(), io.BytesIO()
        return held
