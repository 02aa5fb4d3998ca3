"""How long reports are kept, and the removal of what nobody will read again.

A report goes in two steps. First its run says that it was removed, and nobody begins to read it; an hour later its files go,
so that whoever was reading it then has come to the end. The newest report of each analysis with each choice of options stays.
"""

import logging
import re
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber
from django.utils import timezone
from pyarrow.fs import FileSelector, FileSystem

from analytics.models import AnalysisRun, RunState
from analytics.storage import StorageError, database_identity, folder_names, path_discard, storage_root

logger = logging.getLogger(__name__)

LAST_READERS = timedelta(hours=1)
# of a command that was killed, or an attempt; whatever still writes has written something since
ABANDONED_AFTER = timedelta(hours=24)
RUNS_AT_ONCE = 500

_RUN_FOLDER = re.compile(r"run-(\d+)-(\d+)")


def clean_results() -> None:
    """Mark reports that are beyond RESULTS_KEPT or RESULTS_KEPT_DAYS, and remove files that nothing needs."""
    _superseded_mark()
    try:
        filesystem, root = storage_root()
        _removed_discard(filesystem, root)
        _orphans_discard(filesystem, f"{root}/results/{database_identity()}")
    except (StorageError, OSError) as error:
        logger.warning("Old results could not be removed: %s", error)


def _superseded_mark() -> None:
    now = timezone.now()
    place = Window(RowNumber(), partition_by=["analysis", "options"], order_by=[F("requested_at").desc(), F("pk").desc()])
    kept = AnalysisRun.objects.filter(state=RunState.DONE, results_removed_at=None).annotate(place=place)
    surplus = Q(place__gt=max(1, settings.RESULTS_KEPT))
    if settings.RESULTS_KEPT_DAYS:
        surplus |= Q(place__gt=1, finished_at__lt=now - timedelta(days=settings.RESULTS_KEPT_DAYS))
    numbers = list(kept.filter(surplus).order_by("pk").values_list("pk", flat=True)[:RUNS_AT_ONCE])
    marked = AnalysisRun.objects.filter(pk__in=numbers, results_removed_at=None).update(results_removed_at=now)
    if marked:
        logger.info("%s reports were removed: RESULTS_KEPT is %s, RESULTS_KEPT_DAYS %s", marked, settings.RESULTS_KEPT,
                    settings.RESULTS_KEPT_DAYS)


def _removed_discard(filesystem: FileSystem, root: str) -> None:
    read_to_the_end = timezone.now() - LAST_READERS
    removed = AnalysisRun.objects.filter(results_removed_at__lt=read_to_the_end).exclude(result_folder="").order_by("pk")
    for run in removed[:RUNS_AT_ONCE]:
        path_discard(filesystem, f"{root}/{run.result_folder}")
        AnalysisRun.objects.filter(pk=run.pk).update(result_folder="")


def _orphans_discard(filesystem: FileSystem, folder: str) -> None:
    """Folders that killed processes left behind: no run's report, no attempt that is going on, and long untouched."""
    names = folder_names(filesystem, folder)
    for start in range(0, len(names), RUNS_AT_ONCE):
        chunk = names[start : start + RUNS_AT_ONCE]
        for name in sorted(set(chunk) - _needed(chunk)):
            if _is_abandoned(filesystem, f"{folder}/{name}"):
                logger.info("%s was left behind by a process that ended; it is removed", name)
                path_discard(filesystem, f"{folder}/{name}")


def _needed(names: list[str]) -> set[str]:
    """Of these folders those that hold a run's report, or to which its present attempt writes."""
    found = {name: _RUN_FOLDER.fullmatch(name) for name in names}
    runs = {run.pk: run for run in AnalysisRun.objects.filter(pk__in={int(match[1]) for match in found.values() if match})}
    needed = set()
    for name, match in found.items():
        run = runs.get(int(match[1])) if match else None
        if run is not None and (run.result_folder.endswith(f"/{name}")
                                or run.state == RunState.RUNNING and run.attempt == int(match[2])):
            needed.add(name)
    return needed


def _is_abandoned(filesystem: FileSystem, path: str) -> bool:
    oldest = datetime.now(UTC) - ABANDONED_AFTER
    inside = filesystem.get_file_info(FileSelector(path, allow_not_found=True, recursive=True))
    # a store of objects knows no time of a folder
    return all(info.mtime is None or info.mtime < oldest for info in [filesystem.get_file_info(path), *inside])
