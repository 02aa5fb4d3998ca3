"""A report's table as one file: CSV, Parquet or JSON Lines, by its extension; written aside, then renamed."""

import csv
import io
import json
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.analyses import AnalysisError
from analytics.results import result_batches
from analytics.snapshot import arrow_schema
from analytics.tables import Table

Batches = Iterable[pa.RecordBatch]

_CSV_FLAGS = {True: "true", False: "false", None: ""}


def _write_csv(file: BinaryIO, schema: pa.Schema, batches: Batches) -> None:
    text = io.TextIOWrapper(file, "utf-8", newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(schema.names)
    for batch in batches:
        lines.writerows(zip(*(_csv_column(column) for column in batch.columns), strict=True))
    text.flush()
    text.detach()


def _csv_column(column: pa.Array) -> list:
    values = column.to_pylist()
    return [_CSV_FLAGS[value] for value in values] if pa.types.is_boolean(column.type) else values


def _write_parquet(file: BinaryIO, schema: pa.Schema, batches: Batches) -> None:
    with pq.ParquetWriter(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_jsonl(file: BinaryIO, schema: pa.Schema, batches: Batches) -> None:
    for batch in batches:
        for row in batch.to_pylist():
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


WRITERS: dict[str, Callable[[BinaryIO, pa.Schema, Batches], None]] = {
    ".csv": _write_csv, ".parquet": _write_parquet, ".jsonl": _write_jsonl,
}


def export_check(path: Path) -> None:
    """Raises AnalysisError where `path` could not be written; before anything is computed."""
    if path.suffix.lower() not in WRITERS:
        raise AnalysisError(f"{path}: the extension says in which form to write; it must be one of {', '.join(WRITERS)}")
    if path.is_dir():
        raise AnalysisError(f"{path} is a folder")
    if not path.parent.is_dir():
        raise AnalysisError(f"{path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise AnalysisError(f"{path}: the folder {path.parent} may not be written")


def table_export(table: Table, folder: str, path: Path) -> int:
    """Write a table of a report to `path`, sorted by its key. Returns the number of rows. Raises AnalysisError."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    counted = _Counted(table, folder)
    try:
        with aside.open("xb") as file:
            WRITERS[path.suffix.lower()](file, counted.schema, counted)
        aside.replace(path)
    except OSError as error:
        raise AnalysisError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)
    return counted.rows


class _Counted:
    """The table's batches in the product's own schema, counted as they pass."""

    def __init__(self, table: Table, folder: str):
        self.schema = arrow_schema(table)
        self.rows = 0
        self._batches = result_batches(table, folder)

    def __iter__(self):
        for batch in self._batches:
            self.rows += batch.num_rows
            # Spark writes every column as nullable
            yield pa.record_batch(batch.columns, schema=self.schema)
