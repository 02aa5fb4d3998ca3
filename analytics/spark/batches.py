"""Functions on Arrow batches that run in Python workers: their type, their batch sizes, and what several of
them use.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

# Rows in a batch that is returned to Spark.
BATCH_ROWS = 100_000
# Rows in a batch that a worker writes to a file of a result table.
TABLE_BATCH_ROWS = 1 << 20

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def rows_by_part(batches: Iterable[pa.RecordBatch]) -> dict[int, list[dict[str, Any]]]:
    """Return the rows of the batches as dicts, by the number of their part (the column `part`)."""
    groups: dict[int, list[dict[str, Any]]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            groups.setdefault(row["part"], []).append(row)
    return groups


def packed_column(numbers: np.ndarray | None) -> pa.Array:
    """Return a binary column with one value, which contains all these integers; null if `numbers` is None.

    The value begins with the type code of the smallest sufficient numpy type; the numbers follow in that
    type.
    """
    if numbers is None:
        return pa.nulls(1, pa.binary())
    small = numbers.astype(np.result_type(*map(np.min_scalar_type, (numbers.min(), numbers.max()))))
    return pa.array([small.dtype.char.encode() + small.tobytes()], pa.binary())


def unpack_numbers(packed: bytes) -> np.ndarray:
    """Return the integers in a value of `packed_column`."""
    return np.frombuffer(packed, packed[:1].decode(), offset=1)


def table_bytes(rows: pa.Table) -> bytes:
    """Return rows as the value of a binary column, which can be sent without a copy for each row."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def table_of(packed: bytes) -> pa.Table:
    """Return the rows of `table_bytes`."""
    with pa.ipc.open_stream(packed) as reader:
        return reader.read_all()


def text_array(numbers: np.ndarray, texts: pa.Array) -> pa.DictionaryArray:
    """Return the text at the index of each number. The dictionary contains only the texts that occur."""
    least = int(numbers.min())
    is_used = np.zeros(int(numbers.max()) - least + 1, bool)
    is_used[numbers - least] = True
    dictionary_index = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
    used_texts = texts.take(pa.array(np.nonzero(is_used)[0] + least))
    return pa.DictionaryArray.from_arrays(dictionary_index[numbers - least], used_texts)
