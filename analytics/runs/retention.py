"""Retention of reports: remove old reports, and delete files that are no longer needed.

A report is removed in two steps. First its run is marked, so no new reader starts. An hour later its files
are deleted, when earlier readers have finished. The newest report of each analysis with each choice of
options is always kept.
"""

import logging
import re
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber
from django.utils import timezone
from pyarrow.fs import FileSelector, FileSystem

from analytics.models import AnalysisRun
from analytics.runs.figures import delete_old_figures
from analytics.storage import StorageError, discard_path, folder_names, storage_root
from analytics.storage_identity import deletable_prefix, former_identity, is_storage_private, storage_identity
from grants.effects.large import stored_effect
from grants.models import EFFECT_JOBS, EffectRows, Job, JobState

logger = logging.getLogger(__name__)

# How long the files of a removed report are kept for readers that had started before.
READER_GRACE_PERIOD = timedelta(hours=1)
# A folder without a run is deleted if nothing was written to it for this time, because its process was
# killed.
ABANDONED_AFTER = timedelta(hours=24)
RUNS_AT_ONCE = 500

_RUN_FOLDER = re.compile(r"run-(\d+)-(\d+)")


def clean_results() -> None:
    """Mark reports beyond RESULTS_KEPT or RESULTS_KEPT_DAYS as removed, and delete files and figures that are no
    longer needed.

    Logs a storage error instead of raising it. Takes at most RUNS_AT_ONCE runs per step; the next call
    continues.
    """
    _mark_surplus_reports()
    _remove_effects()
    delete_old_figures()
    try:
        filesystem, root = storage_root()
        _delete_removed_reports(filesystem, root)
        _delete_abandoned_folders(filesystem, f"{root}/results/{storage_identity()}")
        if is_storage_private():
            _delete_former_folders(filesystem, root)
    except (StorageError, OSError) as error:
        logger.warning("Old results could not be removed: %s", error)


def _mark_surplus_reports() -> None:
    now = timezone.now()
    # 1 for the newest report of an analysis with the same options
    age_rank = Window(
        RowNumber(), partition_by=["type", "options"], order_by=[F("requested_at").desc(), F("pk").desc()]
    )
    reports = AnalysisRun.objects.filter(state=JobState.DONE, result_removed_at=None).annotate(
        age_rank=age_rank
    )
    is_surplus = Q(age_rank__gt=max(1, settings.RESULTS_KEPT))
    if settings.RESULTS_KEPT_DAYS:
        is_surplus |= Q(age_rank__gt=1, finished_at__lt=now - timedelta(days=settings.RESULTS_KEPT_DAYS))
    run_ids = list(reports.filter(is_surplus).order_by("pk").values_list("pk", flat=True)[:RUNS_AT_ONCE])
    marked = AnalysisRun.objects.filter(pk__in=run_ids, result_removed_at=None).update(result_removed_at=now)
    if marked:
        logger.info(
            "%s reports were removed: RESULTS_KEPT is %s, RESULTS_KEPT_DAYS %s",
            marked,
            settings.RESULTS_KEPT,
            settings.RESULTS_KEPT_DAYS,
        )


def _remove_effects() -> None:
    """Mark the effects that are outdated as removed, and delete the rows that no reader needs any more."""
    for job in Job.objects.filter(type__in=EFFECT_JOBS, state=JobState.DONE, result_removed_at=None):
        if stored_effect(job) is None:
            Job.objects.filter(pk=job.pk).update(result_removed_at=timezone.now())
    is_over = Q(job__result_removed_at__lt=timezone.now() - READER_GRACE_PERIOD) | Q(
        job__state__in=(JobState.FAILED, JobState.CANCELLED)
    )
    EffectRows.objects.filter(is_over).delete()


def _delete_removed_reports(filesystem: FileSystem, root: str) -> None:
    """Delete the files of reports that were marked as removed at least READER_GRACE_PERIOD ago.

    On a shared storage, folders of version 1.0 and of other identities are kept, because another console may
    use them.
    """
    marked_before = timezone.now() - READER_GRACE_PERIOD
    runs = (
        AnalysisRun.objects.filter(result_removed_at__lt=marked_before).exclude(result_path="").order_by("pk")
    )
    prefix = deletable_prefix()
    for run in runs[:RUNS_AT_ONCE]:
        if run.result_path.startswith(prefix):
            discard_path(filesystem, f"{root}/{run.result_path}")
        else:
            logger.info("%s is kept: another console may use it", run.result_path)
        AnalysisRun.objects.filter(pk=run.pk).update(result_path="")


def _delete_former_folders(filesystem: FileSystem, root: str) -> None:
    """Delete the snapshots of version 1.0, and its reports that no run needs, from a storage that only this
    console uses.
    """
    snapshots = f"{root}/{former_identity()}"
    if folder_names(filesystem, snapshots) and _is_abandoned(filesystem, snapshots):
        discard_path(filesystem, snapshots)
    _delete_abandoned_folders(filesystem, f"{root}/results/{former_identity()}")


def _delete_abandoned_folders(filesystem: FileSystem, folder: str) -> None:
    """Delete the folders of killed processes: no run needs them, and they have not changed for
    ABANDONED_AFTER.
    """
    names = folder_names(filesystem, folder)
    for start in range(0, len(names), RUNS_AT_ONCE):
        chunk = names[start : start + RUNS_AT_ONCE]
        for name in sorted(set(chunk) - _needed_folders(chunk)):
            if _is_abandoned(filesystem, f"{folder}/{name}"):
                logger.info("%s belongs to a process that was killed; it is removed", name)
                discard_path(filesystem, f"{folder}/{name}")


def _needed_folders(names: list[str]) -> set[str]:
    """Return the folders that contain the report of a run, and those to which the current attempt of a run
    writes.
    """
    matches = {name: match for name in names if (match := _RUN_FOLDER.fullmatch(name))}
    runs = {
        run.pk: run
        for run in AnalysisRun.objects.filter(pk__in={int(match[1]) for match in matches.values()})
    }
    needed = set()
    for name, match in matches.items():
        run = runs.get(int(match[1]))
        if run is not None and (
            run.result_path.endswith(f"/{name}")
            or run.state == JobState.RUNNING
            and run.attempt == int(match[2])
        ):
            needed.add(name)
    return needed


def _is_abandoned(filesystem: FileSystem, path: str) -> bool:
    newest_abandoned = datetime.now(UTC) - ABANDONED_AFTER
    contents = filesystem.get_file_info(FileSelector(path, allow_not_found=True, recursive=True))
    # In an object store, a folder has no modification time.
    return all(
        info.mtime is None or info.mtime < newest_abandoned
        for info in [filesystem.get_file_info(path), *contents]
    )
