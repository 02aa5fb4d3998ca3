"""DuckDB databases that read the files of tables, and the errors of reading them."""

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    names = {table_name for table_name, _ in analysis.figures.values()}
    with _written_tables(analysis, places, names) as database:
        return {
            name: first_value(database.execute(f"SELECT {expression} FROM {table_name}"))
            for name, (table_name, expression) in analysis.figures.items()
        }


def figures_by_namespace(analysis: Analysis, places: Mapping[str, Place]) -> dict[tuple[str, str], int]:
    """Return the figures of the namespaces with the largest values, at most MAX_SUBJECTS for each name, by name and
    namespace. places: of the tables that are written, by name.
    """
    found: dict[tuple[str, str], int] = {}
    names = {table_name for table_name, _ in analysis.figures_by_namespace.values()}
    if not names:
        return found
    with _written_tables(analysis, places, names) as database:
        for name, (table_name, expression) in analysis.figures_by_namespace.items():
            rows = database.execute(
                f"SELECT namespace, {expression} AS value FROM {table_name} WHERE namespace <> '' "
                f"GROUP BY namespace ORDER BY value DESC, namespace LIMIT {MAX_SUBJECTS}"
            ).fetchall()
            found |= {(name, namespace): value for namespace, value in rows}
    return found


def sum_of_rows(analysis: Analysis, places: Mapping[str, Place], expression: str) -> int:
    """Return a sum over all rows. expression: SQL on the columns of the table `rows`, from `analytics.analyses`."""
    with _written_tables(analysis, places, [analysis.rows.name]) as database:
        query = f"SELECT coalesce(sum({expression}), 0)::BIGINT FROM {analysis.rows.name}"
        return first_value(database.execute(query))


@contextmanager
def _written_tables(
    analysis: Analysis, places: Mapping[str, Place], names: Iterable[str]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database with these tables, which are written. Read the results inside the block. Raise StorageError if a
    table cannot be read.
    """
    with spilling_database() as database:
        for name in names:
            place = places[name]
            paths = parquet_paths(place.filesystem, place.path)
            database.register(name, dataset_of_files(analysis.table(name), place.filesystem, paths))
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
