"""Tables whose rows Python workers make in the order of the key: they write them as Parquet themselves where they share a folder
with whoever asks, and hand them to Spark where they do not.

Spark would take each row apart and put it together again, which is most of what a large table costs.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame

from analytics.arrow import arrow_schema
from analytics.results import index
from analytics.results.index import IndexedFile, indexed_file, write_file_index
from analytics.spark.batches import BATCH_ROWS, BatchFunction
from analytics.tables import Table

# Python workers of a cluster do not have the console's code
for module in (sys.modules[__name__], index):
    cloudpickle.register_pickle_by_value(module)

FILES = "part int, name string, rows long, least string, greatest string"
SHARED = "file://"
# of the texts of one column in one row group; beyond that, each row repeats its text
DICTIONARY_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class InOrder:
    """table: what the rows are of. rows: made of a partition of `told`, partition after partition in the order of its key;
    text may come as a dictionary."""

    table: Table
    told: DataFrame
    rows: BatchFunction

    @property
    def frame(self) -> DataFrame:
        columns = ", ".join(f"{column.name} {column.type.value}" for column in self.table.columns)
        return self.told.mapInArrow(_plain(self.rows), columns)


def is_shared(uri: str) -> bool:
    """Whether Python workers and this process reach it as a folder; a path or a URI."""
    return "://" not in uri or uri.startswith(SHARED)


def files_write(made: InOrder, uri: str) -> None:
    """Replaces what is there. uri: as `is_shared`. The folder has all files, or no file that is read."""
    folder = Path(uri.removeprefix(SHARED))
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    # one row for each file, of which a partition has one
    written = made.told.mapInArrow(_written(made.rows, str(folder), made.table.key[0]), FILES).collect()
    files = []
    for file in sorted(written, key=lambda file: file.part):
        final = f"part-{file.part:05}.parquet"
        (folder / file.name).rename(folder / final)
        files.append(IndexedFile(final, file.rows, file.least, file.greatest))
    # of attempts that came to nothing
    for left in folder.glob(".*"):
        left.unlink()
    if not written:
        pq.write_table(arrow_schema(made.table).empty_table(), folder / "part-00000.parquet")
        files.append(IndexedFile("part-00000.parquet", 0))
    write_file_index(LocalFileSystem(), str(folder), files)


def _written(rows: BatchFunction, folder: str, sorted_by: str) -> BatchFunction:
    """Batches -> FILES: nothing where there are no rows. sorted_by: the column that comes in order, of which alone it helps a
    reader to know the least and the last of each row group; to find them in others takes as long as to write them."""
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        # nobody reads a hidden file, and no other attempt has this name
        name, writer = f".{task.partitionId():05}-{task.taskAttemptId()}", None
        path = os.path.join(folder, name)
        for batch in rows(batches):
            try:
                writer = writer or pq.ParquetWriter(path, batch.schema, store_schema=False, write_statistics=[sorted_by],
                                                    dictionary_pagesize_limit=DICTIONARY_BYTES)
                writer.write_batch(batch, row_group_size=max(1, batch.num_rows))
            except OSError as error:
                # what the system says of a file that is open does not name it
                raise OSError(f"{path}: {error}") from error
        if writer:
            writer.close()
            file = indexed_file(name, pq.read_metadata(path), sorted_by)
            yield pa.record_batch({"part": pa.array([task.partitionId()], pa.int32()), "name": [name], "rows": [file.rows],
                                   "least": pa.array([file.least], pa.string()),
                                   "greatest": pa.array([file.greatest], pa.string())})

    return write


def _plain(rows: BatchFunction) -> BatchFunction:
    """With text as text, in batches that Spark likes."""
    def plain(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows(batches):
            for first in range(0, batch.num_rows, BATCH_ROWS):
                columns = batch.slice(first, BATCH_ROWS).columns
                yield pa.record_batch([column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
                                       for column in columns], names=batch.schema.names)

    return plain
