"""The index of a result table's Parquet files: how many rows each file has, and the range of its keys.

A report can consist of thousands of files. With the index, a page opens only the index and the one or two
files with its rows. Tables that were written by an older version have no index; `read_file_index` returns
None for them.
"""

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem, FileType

from analytics.storage import Place, parquet_paths
from analytics.tables import Table
from entities.frozen import frozen

# Spark and `storage.parquet_paths` skip names with this beginning
INDEX_NAME = "_index"
# reading a footer from an object store takes tens of milliseconds, nearly all of it waiting
FOOTERS_AT_ONCE = 16

_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("least", pa.string()),
        pa.field("greatest", pa.string()),
    ]
)


@frozen
class IndexedFile:
    """One Parquet file of a table.

    name: the file name in the table's folder. least, greatest: the smallest and the largest value of the
    first key column, or None if they are not known.
    """

    name: str
    rows: int
    least: str | None = None
    greatest: str | None = None

    def may_contain(self, values: Collection[str]) -> bool:
        """Return whether a row of this file may have one of these values in the first key column."""
        if self.least is None or self.greatest is None:
            return self.rows > 0
        return any(self.least <= value <= self.greatest for value in values)


def is_result_file(name: str) -> bool:
    """Return whether a file of this name belongs to a written table: one with rows, or the index."""
    return name == INDEX_NAME or name.endswith(".parquet") and not name.startswith(("_", "."))


def write_file_index(filesystem: FileSystem, folder: str, files: Iterable[IndexedFile]) -> None:
    """Write the index of a table's folder. Call it after all files of the table are written."""
    entries = [
        {"name": file.name, "rows": file.rows, "least": file.least, "greatest": file.greatest}
        for file in files
    ]
    pq.write_table(pa.Table.from_pylist(entries, _SCHEMA), f"{folder}/{INDEX_NAME}", filesystem=filesystem)


def write_index(table: Table, place: Place) -> list[IndexedFile]:
    """Write the index of a written table, and return its files."""
    paths = parquet_paths(place.filesystem, place.path)
    files = files_from_footers(place.filesystem, paths, table.key[0])
    write_file_index(place.filesystem, place.path, files)
    return files


def read_file_index(filesystem: FileSystem, folder: str) -> list[IndexedFile] | None:
    """Return the files of a table in the order of its key; None if the folder has no index.

    Opens one file.
    """
    path = f"{folder}/{INDEX_NAME}"
    if filesystem.get_file_info(path).type != FileType.File:
        return None
    with filesystem.open_input_file(path) as file:
        return [IndexedFile(**entry) for entry in pq.ParquetFile(file).read().to_pylist()]


def files_from_footers(filesystem: FileSystem, paths: Sequence[str], key_column: str) -> list[IndexedFile]:
    """Return the index entries of these files, read from their footers. Opens every file."""
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as threads:
        return list(threads.map(lambda path: _file_from_footer(filesystem, path, key_column), paths))


def size_of_tables(places: Iterable[Place]) -> dict[str, int]:
    """Return the rows and the bytes of the tables that are written at these places, by the names of the figures. Opens the
    index of each table, and lists its folder.
    """
    rows = size = 0
    for place in places:
        rows += sum(file.rows for file in read_file_index(place.filesystem, place.path) or ())
        infos = place.filesystem.get_file_info(FileSelector(place.path, allow_not_found=True))
        size += sum(info.size for info in infos if info.is_file)
    return {"result_rows": rows, "result_bytes": size}


def count_rows(filesystem: FileSystem, paths: Sequence[str]) -> int:
    """Return the rows of these files, read from their footers. Opens every file."""
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as threads:
        return sum(threads.map(lambda path: pq.read_metadata(path, filesystem=filesystem).num_rows, paths))


def _file_from_footer(filesystem: FileSystem, path: str, key_column: str) -> IndexedFile:
    with filesystem.open_input_file(path) as file:
        metadata = pq.ParquetFile(file).metadata
    name, column = path.rpartition("/")[2], metadata.schema.names.index(key_column)
    groups = [
        metadata.row_group(number).column(column).statistics for number in range(metadata.num_row_groups)
    ]
    if not groups or not all(
        group is not None and group.has_min_max and isinstance(group.min, str) for group in groups
    ):
        return IndexedFile(name, metadata.num_rows)
    return IndexedFile(
        name, metadata.num_rows, min(group.min for group in groups), max(group.max for group in groups)
    )
