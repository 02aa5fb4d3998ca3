"""The files of a report's tables: list them, and select those that a filter needs."""

from collections.abc import Sequence
from typing import NoReturn

import pyarrow.dataset as ds
from pyarrow.fs import FileType

from analytics.analyses import AnalysisError
from analytics.results.database import dataset_of_files
from analytics.results.index import INDEX_NAME, IndexedFile, files_from_footers, read_file_index
from analytics.results.manifest import ReportManifest
from analytics.storage import parquet_paths, storage_path, storage_root
from analytics.tables import Table


class ResultsGone(AnalysisError):
    """The report existed, and its files were removed."""

    status = 410


def table_path(table: Table, folder: str) -> str:
    """Return the path of a table's folder. folder: the folder of the report, below SNAPSHOT_URI."""
    return storage_path(f"{folder}/{table.name}")


def table_files(table: Table, folder: str, manifest: ReportManifest | None) -> list[IndexedFile]:
    """Return the files of a table in the order of its key.

    Raise ResultsGone if the files were removed, ReportChanged if they were changed. Opens only the index. If
    the table was written by a version without indexes, opens the footer of every file.
    manifest: the manifest of a signed report; the index is verified, and the caller verifies the files that
    it opens.
    """
    files = _read_index(table, folder, manifest) if folder else []
    if files is None:
        filesystem, _ = storage_root()
        return files_from_footers(filesystem, table_file_paths(table, folder, manifest), table.key[0])
    return files or raise_results_gone()


def _read_index(table: Table, folder: str, manifest: ReportManifest | None) -> list[IndexedFile] | None:
    """Return the files in the index of a table; None if it has no index."""
    filesystem, _ = storage_root()
    path = table_path(table, folder)
    if manifest is not None and f"{table.name}/{INDEX_NAME}" in manifest.files:
        if filesystem.get_file_info(path).type == FileType.NotFound:
            raise_results_gone()
        manifest.check_files(filesystem, [f"{path}/{INDEX_NAME}"])
    return read_file_index(filesystem, path)


def table_file_paths(table: Table, folder: str, manifest: ReportManifest | None) -> list[str]:
    """Return the paths of a table's files in the order of its key, without opening one.

    Raise ResultsGone if the files were removed, ReportChanged if their names were changed.
    manifest: the manifest of a signed report; the names are verified, and the caller verifies the files that
    it opens.
    """
    filesystem, _ = storage_root()
    paths = parquet_paths(filesystem, table_path(table, folder)) if folder else []
    if paths and manifest is not None:
        manifest.check_names(table.name, [path.rpartition("/")[2] for path in paths])
    return paths or raise_results_gone()


def table_dataset(
    table: Table,
    folder: str,
    first_key_values: Sequence[str] | None = None,
    manifest: ReportManifest | None = None,
) -> ds.Dataset:
    """Return a table as a dataset. Raise ResultsGone if its files were removed, ReportChanged if they were
    changed.

    first_key_values: the values of interest in the first key column. Files without these values, by the
    index, are left out.
    manifest: the manifest of a signed report; the files of the dataset are verified.
    """
    filesystem, _ = storage_root()
    paths = _paths_with_values(table, folder, first_key_values, manifest)
    if manifest is not None:
        manifest.check_files(filesystem, paths)
    return dataset_of_files(table, filesystem, paths)


def _paths_with_values(
    table: Table, folder: str, first_key_values: Sequence[str] | None, manifest: ReportManifest | None
) -> list[str]:
    path = table_path(table, folder)
    files = _read_index(table, folder, manifest) if folder and first_key_values is not None else None
    if files is None or first_key_values is None:
        return table_file_paths(table, folder, manifest)
    return [f"{path}/{file.name}" for file in files if file.may_contain(first_key_values)]


def raise_results_gone() -> NoReturn:
    """Raise ResultsGone: the files were deleted, although the report was not removed."""
    raise ResultsGone(
        "the report's files are gone from the folder of snapshots and results; run the analysis again"
    )
