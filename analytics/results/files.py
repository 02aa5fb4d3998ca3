"""The files of a report's tables: list them, select those that a filter needs, and translate read errors."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FileType

from analytics.analyses import AnalysisError
from analytics.arrow import arrow_schema
from analytics.results.index import INDEX_NAME, IndexedFile, files_from_footers, read_file_index, write_file_index
from analytics.storage import StorageError, file_paths, storage_path, storage_root
from analytics.tables import Table

MAX_CAUSE_CHARACTERS = 200


class ResultsGone(AnalysisError):
    """The report existed, and its files were removed."""


def table_path(table: Table, folder: str) -> str:
    """Return the path of a table's folder. folder: of the report, below SNAPSHOT_URI."""
    return storage_path(f"{folder}/{table.name}")


def table_files(table: Table, folder: str) -> list[IndexedFile]:
    """Return the files of a table in the order of its key. Raise ResultsGone.

    Opens the index only. If the table was written by a version without indexes, opens the footer of every file.
    """
    filesystem, _ = storage_root()
    files = read_file_index(filesystem, table_path(table, folder)) if folder else []
    if files is None:
        return files_from_footers(filesystem, table_file_paths(table, folder), table.key[0])
    return files or _raise_results_gone()


def table_file_paths(table: Table, folder: str) -> list[str]:
    """Return the paths of a table's files in the order of its key, without opening one. Raise ResultsGone."""
    filesystem, _ = storage_root()
    paths = file_paths(filesystem, table_path(table, folder), ".parquet") if folder else []
    return paths or _raise_results_gone()


def table_dataset(table: Table, folder: str, first_key_values: Sequence[str] | None = None) -> ds.Dataset:
    """Return a table as a dataset. Raise ResultsGone.

    first_key_values: the values of interest in the first key column. Files without these values, by the index, are left out.
    """
    filesystem, _ = storage_root()
    # With a given schema, no file is opened to read the schema. In files written by Spark every column is nullable.
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema(table)])
    return ds.dataset(_paths_with_values(table, folder, first_key_values), schema=schema, filesystem=filesystem, format="parquet")


def _paths_with_values(table: Table, folder: str, first_key_values: Sequence[str] | None) -> list[str]:
    filesystem, _ = storage_root()
    path = table_path(table, folder)
    files = read_file_index(filesystem, path) if folder and first_key_values is not None else None
    if files is None or first_key_values is None:
        return table_file_paths(table, folder)
    return [f"{path}/{file.name}" for file in files if file.may_contain(first_key_values)]


def _raise_results_gone() -> NoReturn:
    raise ResultsGone("the report's files are gone from the folder of snapshots and results; run the analysis again")


def write_index(table: Table, folder: str) -> None:
    """Write the index of a written table, unless the writer of its files wrote one."""
    filesystem, _ = storage_root()
    path = table_path(table, folder)
    if filesystem.get_file_info(f"{path}/{INDEX_NAME}").type != FileType.File:
        files = files_from_footers(filesystem, file_paths(filesystem, path, ".parquet"), table.key[0])
        write_file_index(filesystem, path, files)


@contextmanager
def translate_read_errors() -> Iterator[None]:
    """Convert errors of the storage, Arrow and DuckDB into StorageError.

    A damaged file can raise an error when it is opened, or later when its rows are read. Therefore read the rows inside the
    `with` block too.
    """
    try:
        yield
    except (OSError, pa.ArrowException, duckdb.Error) as error:
        cause = (str(error).splitlines() or [type(error).__name__])[0][:MAX_CAUSE_CHARACTERS].rstrip(". ")
        raise StorageError(f"the report's files are damaged or unavailable ({cause}); run the analysis again") from error
