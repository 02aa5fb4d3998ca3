"""Check that snapshots and results of jobs are as they were written: `python -m analytics.check URI [URI ...]`.

For each URI, print what is there. The exit status is 1 if something is missing, incomplete, or was changed. The files of
a result are compared with the hashes in its manifest, those of a snapshot with their sizes.
"""

import argparse
import sys
from collections.abc import Sequence

from analytics.manifests import ManifestError, unverified_contents
from analytics.results.stored import stored_result
from analytics.snapshots.stored import stored_snapshot
from analytics.storage import StorageError, place_of, shown_uri


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="analytics.check", description="Check snapshots and results of jobs."
    )
    parser.add_argument("uris", metavar="URI", nargs="+", help="the folder of a snapshot or a result")
    status = 0
    for uri in parser.parse_args(arguments).uris:
        try:
            print(f"{shown_uri(uri)}: {_description(uri)}")
        except StorageError as error:
            print(f"analytics.check: {error}", file=sys.stderr)
            status = 1
    return status


def _description(uri: str) -> str:
    """Return what is at a URI. Raise StorageError if it is not as it was written."""
    place = place_of(uri, "The URI")
    try:
        is_snapshot = "table" not in unverified_contents(place.filesystem, place.path)
    except (OSError, ManifestError):
        is_snapshot = False
    if not is_snapshot:
        return stored_result(uri)
    with stored_snapshot(uri) as (snapshot, _):
        return f"a snapshot of revision {snapshot.revision}: {snapshot.size_bytes:,} bytes in {len(snapshot.files)} files"


if __name__ == "__main__":
    sys.exit(main())
