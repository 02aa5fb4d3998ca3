"""The result of a standalone job: a folder with the Parquet files of one table, their index and a manifest."""

from collections.abc import Mapping
from typing import Any

from analytics.manifests import (
    DAMAGED,
    ManifestError,
    hashed_files,
    manifest_body,
    manifest_bytes,
    unverified_contents,
    write_manifest_file,
)
from analytics.results.index import is_result_file, read_file_index
from analytics.storage import Place, StorageError, place_of, shown_uri
from analytics.tables import Table


def write_result_manifest(place: Place, table: Table, members: Mapping[str, Any]) -> int:
    """Write the manifest of a table that is written completely. Return its number of rows.

    members: further members: what was computed from what. Reads every file once.
    """
    rows = sum(file.rows for file in read_file_index(place.filesystem, place.path) or ())
    contents = {
        **members,
        "table": table.name,
        "columns": [
            {"name": c.name, "type": c.type.value, "nullable": c.nullable, "meaning": c.meaning}
            for c in table.columns
        ],
        "key": list(table.key),
        "rows": rows,
        "files": hashed_files(place.filesystem, place.path, is_result_file),
    }
    write_manifest_file(place.filesystem, place.path, manifest_bytes({}, manifest_body(contents)))
    return rows


def stored_result(uri: str) -> str:
    """Return a description of the result at a path or URI. Raise StorageError unless its files are exactly those in its
    manifest.

    Reads every file once.
    """
    place, shown = place_of(uri, "The URI of the result"), shown_uri(uri)
    try:
        contents = unverified_contents(place.filesystem, place.path)
        stored = {file["path"]: file for file in hashed_files(place.filesystem, place.path, is_result_file)}
        expected = {file["path"]: file for file in contents["files"]}
        for path in sorted({*stored, *expected}):
            if path not in stored or path not in expected:
                raise ManifestError(f"{path} {'is missing' if path in expected else 'was added'}")
            if stored[path] != expected[path]:
                raise ManifestError(f"{path} has different content")
        description = (
            f"the table {contents['table']} of {contents['analysis']}: {contents['rows']:,} rows in {len(expected)} files, of "
            f"revision {contents['revision']}"
        )
        # lines and escape sequences would look like the output of the check
        if not description.isprintable():
            raise ManifestError(DAMAGED)
    except FileNotFoundError:
        raise StorageError(f"There is no complete result at {shown}: it has no manifest.") from None
    except (ManifestError, KeyError, TypeError, ValueError) as error:
        fault = error if isinstance(error, ManifestError) else DAMAGED
        raise StorageError(
            f"The result at {shown} is not what a job wrote: {fault}. Run the job again."
        ) from None
    return description
