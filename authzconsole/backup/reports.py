"""The reports in a backup: the folders of finished runs below SNAPSHOT_URI."""

import shutil
from pathlib import Path

from pyarrow.fs import FileSelector, FileType

from analytics.models import AnalysisRun
from analytics.storage import storage_root
from authzconsole.backup.archive import REPORTS
from grants.models import JobState


def copy_reports(folder: Path) -> dict[str, Path]:
    """Copy the files of all reports into `folder`. Return the copies by their names in the archive.

    A report that is removed meanwhile is left out.
    """
    filesystem, root = storage_root()
    runs = (
        AnalysisRun.objects.filter(state=JobState.DONE, result_removed_at=None)
        .exclude(result_path="")
        .order_by("pk")
    )
    copies: dict[str, Path] = {}
    for result_folder in runs.values_list("result_path", flat=True):
        selector = FileSelector(f"{root}/{result_folder}", allow_not_found=True, recursive=True)
        copied: dict[str, Path] = {}
        try:
            for info in filesystem.get_file_info(selector):
                if info.type == FileType.File:
                    target = folder / f"report-{len(copies) + len(copied)}"
                    with filesystem.open_input_stream(info.path) as source, target.open("wb") as file:
                        shutil.copyfileobj(source, file)
                    copied[REPORTS + info.path.removeprefix(f"{root}/")] = target
        except FileNotFoundError:
            continue
        copies |= copied
    return copies


def store_reports(files: dict[str, Path]) -> int:
    """Write the extracted reports below SNAPSHOT_URI. Return the number of files."""
    filesystem, root = storage_root()
    reports = {name.removeprefix(REPORTS): path for name, path in files.items() if name.startswith(REPORTS)}
    for name, path in reports.items():
        target = f"{root}/{name}"
        filesystem.create_dir(target.rpartition("/")[0], recursive=True)
        with path.open("rb") as source, filesystem.open_output_stream(target) as file:
            shutil.copyfileobj(source, file)
    return len(reports)


def is_safe_name(name: str) -> bool:
    """Return whether a backup may contain a file with this name.

    The name of a report must not lead outside SNAPSHOT_URI.
    """
    parts = name.split("/")
    return not name.startswith(REPORTS) or len(parts) > 2 and not {"", ".", ".."}.intersection(parts)
