"""Write the bundle of a request in the worker."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from analytics.folders import ScratchError, scratch_folder
from analytics.storage import StorageError, storage_problem, storage_root
from analytics.storage_identity import storage_identity
from authzconsole.backup.archive import copy_stream
from authzconsole.common.messages import as_sentence
from authzconsole.evidence.files import EvidenceFiles, write_files
from authzconsole.evidence.services import claim_evidence, update_claimed
from authzconsole.models import Evidence, EvidenceState
from entities.address import parse_address
from grants.errors import GrantError
from grants.evidence.access_rows import access_periods
from grants.evidence.bundle import write_bundle
from grants.evidence.contents import content_count, contents_of
from grants.evidence.holdings import read_users
from grants.history.catch_up import catch_up
from grants.jobs import retry_database
from grants.journal import current_head

logger = logging.getLogger(__name__)
SECONDS_BETWEEN_HEARTBEATS = 2.0


class EvidenceLost(Exception):
    """Another attempt executes the request now."""


def execute_evidence(*, number: int) -> None:
    """Write the bundle of a waiting request.

    Do nothing if it is not waiting, so that a second message does no harm.
    """
    evidence = retry_database(lambda: claim_evidence(number))
    if evidence is None:
        return
    try:
        values = _write(evidence)
    except EvidenceLost:
        logger.warning("%s is executed by another attempt; this attempt ends", evidence)
        return
    except Exception as error:
        logger.exception("%s failed", evidence, exc_info=error)
        values = {"state": EvidenceState.FAILED, "error": _failure_message(error)}
    retry_database(lambda: update_claimed(evidence, finished_at=timezone.now(), **values))


def _write(evidence: Evidence) -> dict:
    """Write the bundle into the storage. Return the columns of the finished request."""
    catch_up()
    head, entity = current_head(), parse_address(evidence.entity)
    bounds = (evidence.from_revision, evidence.to_revision + 1)
    users = read_users(bounds)
    total = content_count(entity, evidence.kind, bounds) if evidence.contents else len(users.active)
    entities = contents_of(entity, evidence.kind, bounds) if evidence.contents else iter([entity])
    periods = access_periods(entities, bounds, settings.DEFAULT_GENERATION, users)
    with scratch_folder(settings.TEMP_DIR) as folder:
        files = write_files(Path(folder), evidence, periods, len(users.active), _progress(evidence, total))
        bundle = Path(folder) / "bundle.zip"
        manifest = write_bundle(bundle, _manifest_contents(evidence, files, head), files.paths)
        path, sha256 = _store(evidence, bundle)
    return {
        "state": EvidenceState.DONE,
        "path": path,
        "sha256": sha256,
        "users_done": total,
        "figures": manifest["figures"],
    }


def _progress(evidence: Evidence, users_total: int) -> Callable[[int], None]:
    """Return a function that stores how many users or entities are done, at most every
    SECONDS_BETWEEN_HEARTBEATS.
    """
    last = 0.0

    def store(users_done: int) -> None:
        nonlocal last
        if time.monotonic() - last < SECONDS_BETWEEN_HEARTBEATS:
            return
        last = time.monotonic()
        if not retry_database(
            lambda: update_claimed(evidence, users_done=users_done, users_total=users_total)
        ):
            raise EvidenceLost

    return store


def _manifest_contents(evidence: Evidence, files: EvidenceFiles, head) -> dict:
    return {
        "instance": settings.INSTANCE_NAME,
        "entity": evidence.entity,
        "contents": evidence.contents,
        "kind": evidence.kind,
        "from_revision": evidence.from_revision,
        "to_revision": evidence.to_revision,
        "since": _text(evidence.since),
        "until": _text(evidence.until),
        "created_at": _text(timezone.now()),
        "requested_by": str(evidence.requested_by or ""),
        "figures": files.figures,
        "journal_head": {"revision": head.revision, "hash": head.hash, "at": _text(head.at)},
    }


def _text(at) -> str | None:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z") if at else None


def _store(evidence: Evidence, bundle: Path) -> tuple[str, str]:
    """Copy the bundle into the storage. Return its path below SNAPSHOT_URI and its SHA-256 hash."""
    filesystem, root = storage_root()
    folder = f"evidence/{storage_identity()}"
    path = f"{folder}/evidence-{evidence.pk}-{evidence.attempt}.zip"
    filesystem.create_dir(f"{root}/{folder}", recursive=True)
    with (
        bundle.open("rb") as source,
        filesystem.open_output_stream(f"{root}/{path}", compression=None) as target,
    ):
        facts = copy_stream(source, target)
    return path, facts.sha256


def _failure_message(error: Exception) -> str:
    if isinstance(error, GrantError | StorageError | ScratchError):
        return as_sentence(error)
    if isinstance(error, OSError):
        return storage_problem(error)
    return "The bundle could not be written because of an unexpected error. The worker's log contains more details."
