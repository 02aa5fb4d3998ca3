"""The type and the batch size of functions on Arrow batches, which run in Python workers."""

from collections.abc import Callable, Iterator

import pyarrow as pa

# Rows in a batch that goes back to Spark.
BATCH_ROWS = 100_000

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
