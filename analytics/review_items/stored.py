"""Copy the items that a run computed into the table of items. `analytics.runs.services` requests the run."""

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from django.db import connection
from pyarrow.fs import FileSelector

from analytics.analyses import REVIEW_ITEMS
from analytics.models import AnalysisRun
from analytics.results.manifest import load_manifest
from analytics.storage import storage_path, storage_root
from grants.bulk_rows import insert_rows
from grants.models.reviews import Campaign, ItemSource, ReviewItem
from grants.reviews.preparation import ROWS_PER_BATCH, ItemSupply, statement_values
from grants.reviews.preparation_sql import ITEM_COLUMNS
from grants.reviews.scope import parse_scope


def items_run(campaign: Campaign) -> AnalysisRun | None:
    """Return the run that computes the items of a review; None if there is none. Runs one query."""
    return (
        AnalysisRun.objects.filter(type=REVIEW_ITEMS, options={"review": str(campaign.pk)})
        .order_by("-pk")
        .first()
    )


def computed_items(campaign: Campaign, run: AnalysisRun) -> ItemSupply:
    """Return the items that a finished run computed, to be inserted in batches."""
    return ItemSupply(run.revision or 0, _insertions(campaign, run))


def _insertions(campaign: Campaign, run: AnalysisRun) -> Iterator[Callable[[], int]]:
    filesystem, _ = storage_root()
    manifest = load_manifest(run) if run.result_hash else None
    for source in map(ItemSource, parse_scope(campaign.scope).reviewed_sources):
        folder = storage_path(f"{run.result_path}/{source.value}")
        paths = sorted(
            info.path
            for info in filesystem.get_file_info(FileSelector(folder))
            if info.path.endswith(".parquet")
        )
        if manifest:
            manifest.check_names(source.value, (path.rpartition("/")[2] for path in paths))
            manifest.check_files(filesystem, paths)
        for path in paths:
            with filesystem.open_input_file(path) as file:
                for batch in pq.ParquetFile(file).iter_batches(ROWS_PER_BATCH, columns=list(ITEM_COLUMNS)):
                    if batch.num_rows:
                        yield partial(_insert, batch)


def _insert(batch: pa.RecordBatch) -> int:
    if connection.vendor == "postgresql":
        buffer = pa.BufferOutputStream()
        # an empty text is written with quotation marks, and null without
        pa.csv.write_csv(batch, buffer, pa.csv.WriteOptions(include_header=False))
        statement = f"COPY {ReviewItem._meta.db_table} ({', '.join(ITEM_COLUMNS)}) FROM STDIN (FORMAT csv)"
        with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(statement) as copy:
            copy.write(buffer.getvalue().to_pybytes())
    else:
        insert_rows(ReviewItem, ITEM_COLUMNS, [statement_values(row.values()) for row in batch.to_pylist()])
    return batch.num_rows
