"""DuckDB databases that read the files of tables, and the errors of reading them."""

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FileSystem

from analytics.analyses import Analysis
from analytics.arrow import arrow_schema
from analytics.folders import ScratchError, scratch_folder
from analytics.interrupts import interruptible_database
from analytics.settings import settings
from analytics.storage import Place, StorageError, parquet_paths
from analytics.tables import Table

MEMORY_LIMIT = "1GB"
MAX_CAUSE_CHARACTERS = 200
# of a figure by namespace: the namespaces with the largest values
MAX_SUBJECTS = 50


@contextmanager
def spilling_database(memory_limit: str = MEMORY_LIMIT) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an empty database that uses temporary files if a query needs more memory.

    Errors of reading are converted into StorageError, so read the results inside the block.
    """
    with (
        translate_read_errors(),
        scratch_folder(settings.TEMP_DIR) as spill_folder,
        interruptible_database({"memory_limit": memory_limit, "temp_directory": spill_folder}) as database,
    ):
        yield database


def dataset_of_files(table: Table, filesystem: FileSystem, paths: Sequence[str]) -> ds.Dataset:
    """Return these files of a table as a dataset. Opens no file."""
    # With a given schema, no file is opened to read the schema. In files written by Spark every column is
    # nullable.
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema(table)])
    return ds.dataset(list(paths), schema=schema, filesystem=filesystem, format="parquet")


def figures(analysis: Analysis, places: Mapping[str, Place]) -> dict[str, int]:
    """Return the figures at the head of a report, by name. places: of the tables that are written, by name."""
    return {
        name: aggregate(analysis.table(table_name), places[table_name], expression)
        for name, (table_name, expression) in analysis.figures.items()
    }


def figures_by_namespace(analysis: Analysis, places: Mapping[str, Place]) -> dict[tuple[str, str], int]:
    """Return the figures of the namespaces with the largest values, at most MAX_SUBJECTS for each name, by name and
    namespace. places: of the tables that are written, by name.
    """
    found: dict[tuple[str, str], int] = {}
    for name, (table_name, expression) in analysis.figures_by_namespace.items():
        query = (
            f"SELECT namespace, {expression} AS value FROM {table_name} WHERE namespace <> '' "
            f"GROUP BY namespace ORDER BY value DESC, namespace LIMIT {MAX_SUBJECTS}"
        )
        with written_table(analysis.table(table_name), places[table_name]) as database:
            found |= {(name, namespace): value for namespace, value in database.execute(query).fetchall()}
    return found


def sum_of_rows(expression: str, table: Table, place: Place) -> int:
    """Return a sum over all rows. expression: SQL on the table's columns, from `analytics.analyses`."""
    return aggregate(table, place, f"coalesce(sum({expression}), 0)::BIGINT")


def aggregate(table: Table, place: Place, expression: str) -> int:
    """Return an SQL aggregate over a table that is written at a place. Raise StorageError if it cannot be read."""
    with written_table(table, place) as database:
        return first_value(database.execute(f"SELECT {expression} FROM {table.name}"))


@contextmanager
def written_table(table: Table, place: Place) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database with a table that is written at a place. Read the results inside the block."""
    with spilling_database() as database:
        paths = parquet_paths(place.filesystem, place.path)
        database.register(table.name, dataset_of_files(table, place.filesystem, paths))
        yield database


def first_value(result: duckdb.DuckDBPyConnection) -> int:
    """Return the value of an aggregate without GROUP BY, which always has one row."""
    row = result.fetchone()
    assert row is not None
    return row[0]


def scratch_problem(error: Exception) -> str:
    """Return a sentence if the folder for temporary files is full, which is the only folder that a reader
    writes; else empty.
    """
    text = str(error)
    is_full = (
        "No space left on device" in text
        or isinstance(error, duckdb.Error)
        and "max_temp_directory_size" in text
    )
    return str(ScratchError(settings.TEMP_DIR, OSError(errno.ENOSPC, text))) if is_full else ""


@contextmanager
def translate_read_errors() -> Iterator[None]:
    """Convert errors of the storage, Arrow and DuckDB into StorageError.

    A damaged file can raise an error when it is opened, or later when its rows are read. Therefore read the
    rows inside the `with` block too.
    """
    try:
        yield
    except ScratchError as error:
        raise StorageError(str(error)) from error
    except (OSError, pa.ArrowException, duckdb.Error) as error:
        if problem := scratch_problem(error):
            raise StorageError(problem) from error
        cause = (str(error).splitlines() or [type(error).__name__])[0][:MAX_CAUSE_CHARACTERS].rstrip(". ")
        raise StorageError(
            f"the report's files are damaged or unavailable ({cause}); run the analysis again"
        ) from error
