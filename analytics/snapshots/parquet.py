"""Copy rows of the database into Parquet files, in bounded memory."""

import io
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

import psycopg
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from django.db import connection
from django.db.models import QuerySet
from pyarrow.fs import FileSystem

ROWS_PER_GROUP = 100_000
BLOCK_BYTES = 8_000_000
ROWS_PER_FILE = 500_000


def write_rows(
    filesystem: FileSystem,
    folder: str,
    name: str,
    schema: pa.Schema,
    parts: Iterable[QuerySet],
    check: Callable[[], None],
) -> list[str]:
    """Write the rows of querysets as several files in `folder/name`, so that Spark reads them in parallel.

    The querysets return values in the order of the schema. Without rows, there is one file without rows.
    check: called between batches of rows; its exceptions end the writing.
    Return the paths of the files within `folder`.
    """
    filesystem.create_dir(f"{folder}/{name}")
    batches = chain.from_iterable(_batches(rows, schema) for rows in parts)
    paths: list[str] = []
    batch = next(batches, None)
    while batch is not None or not paths:
        paths.append(f"{name}/part-{len(paths):05}.parquet")
        rows_in_file = 0
        with pq.ParquetWriter(
            f"{folder}/{paths[-1]}", schema, filesystem=filesystem, compression="zstd"
        ) as writer:
            while batch is not None and rows_in_file < ROWS_PER_FILE:
                check()
                writer.write_batch(batch.cast(schema))
                rows_in_file += batch.num_rows
                batch = next(batches, None)
    return paths


def _batches(rows: QuerySet, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    return _copy_batches(rows, schema) if connection.vendor == "postgresql" else _fetch_batches(rows, schema)


def _fetch_batches(rows: QuerySet, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    remaining = rows.iterator(chunk_size=ROWS_PER_GROUP // 10)
    while batch := list(islice(remaining, ROWS_PER_GROUP)):
        columns = zip(zip(*batch, strict=True), schema.types, strict=True)
        yield pa.record_batch([pa.array(column, data_type) for column, data_type in columns], schema=schema)


def _copy_batches(rows: QuerySet, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read rows with COPY as CSV, which is several times as fast as creating Python objects."""
    statement = psycopg.ClientCursor(connection.connection).mogrify(*rows.query.sql_with_params())
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY ({statement}) TO STDOUT (FORMAT csv, ENCODING 'UTF8')") as copy,
    ):
        try:
            for batch in _read_csv(_CopyFile(copy), schema):
                for first in range(0, batch.num_rows, ROWS_PER_GROUP):
                    yield batch.slice(first, ROWS_PER_GROUP)
        except pa.ArrowInvalid as error:
            if "Empty CSV file" not in str(error):
                raise


def _read_csv(file: io.RawIOBase, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    # PostgreSQL writes null as an empty field, an empty string as two quotation marks, and a boolean as one
    # letter
    return pa.csv.open_csv(
        file,
        read_options=pa.csv.ReadOptions(column_names=schema.names, block_size=BLOCK_BYTES),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types=schema,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
        ),
    )


class _CopyFile(io.RawIOBase):
    """A file object that reads the output of a running COPY."""

    def __init__(self, copy: psycopg.Copy):
        self._copy, self._buffered = copy, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        blocks, length = [self._buffered], len(self._buffered)
        while size < 0 or length < size:
            block = bytes(self._copy.read())
            if not block:
                break
            blocks.append(block)
            length += len(block)
        data = b"".join(blocks)
        size = len(data) if size < 0 else size
        self._buffered = data[size:]
        return data[:size]
