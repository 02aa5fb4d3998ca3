"""Request, send, resend and delete evidence."""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from pyarrow import NativeFile

from analytics.storage import StorageError, storage_root
from authzconsole.models import Evidence, EvidenceState
from entities.address import Address, ancestor_kinds
from entities.vocabulary import KINDS
from grants.errors import GrantError
from grants.evidence.contents import CONTAINERS
from grants.evidence.signing import public_key
from grants.jobs.queue import send_task
from grants.models import User

logger = logging.getLogger(__name__)

# a message that Redis lost is sent again after this time
RESEND_AFTER = timedelta(seconds=30)
# a task without a heartbeat for this time has ended
LOST_AFTER = timedelta(minutes=2)
MAX_ATTEMPTS = 3
MAX_UNFINISHED = 20
CHUNK_BYTES = 1 << 18


class EvidenceError(GrantError):
    """Evidence cannot be requested; the message says why."""

    status = 409


def request_evidence(
    *,
    entity: Address,
    from_revision: int,
    to_revision: int,
    since: datetime | None = None,
    until: datetime | None = None,
    contents: bool = False,
    kind: str = "",
    requested_by: User,
) -> Evidence:
    """Store a request and send it to the worker when the transaction commits.

    contents: also about everything inside a namespace or application. kind: only about entities of this kind.
    Raise EvidenceError if the period is empty, the entity has no such contents or too many requests are
    unfinished, JournalReadOnly without a journal key.
    """
    public_key()
    if from_revision > to_revision:
        raise EvidenceError("the period ends before it starts: exchange the two times")
    if contents and entity.kind not in CONTAINERS:
        raise EvidenceError(
            f"{entity} has no contents: choose a namespace or an application, or only this entity"
        )
    if kind and (not contents or kind not in KINDS or entity.kind not in (kind, *ancestor_kinds(kind))):
        raise EvidenceError(
            f"{entity} contains no {kind}" if contents else "choose a kind only together with the contents"
        )
    if (
        Evidence.objects.filter(state__in=(EvidenceState.WAITING, EvidenceState.RUNNING)).count()
        >= MAX_UNFINISHED
    ):
        raise EvidenceError(f"{MAX_UNFINISHED} requests are not finished yet: wait until one of them is")
    evidence = Evidence.objects.create(
        entity=str(entity),
        contents=contents,
        kind=kind,
        since=since,
        until=until,
        from_revision=from_revision,
        to_revision=to_revision,
        requested_by=requested_by,
    )
    transaction.on_commit(lambda: send_evidence(evidence))
    return evidence


def send_evidence(evidence: Evidence) -> bool:
    """Send a waiting request to the worker.

    Return whether Redis accepted it; otherwise `sweep_evidence` sends it later.
    """
    if not send_task(
        "authzconsole.evidence_write", evidence.pk, label=str(evidence), queue=settings.RUN_QUEUE
    ):
        return False
    Evidence.objects.filter(pk=evidence.pk).update(sent_at=timezone.now())
    return True


def sweep_evidence() -> None:
    """Requeue requests with a lost task, resend waiting ones, and delete the files of old ones."""
    now = timezone.now()
    # a time in the future: the clock was set back after it
    is_lost = Q(heartbeat_at__lt=now - LOST_AFTER) | Q(heartbeat_at__gt=now + LOST_AFTER)
    lost = Evidence.objects.filter(is_lost, state=EvidenceState.RUNNING)
    lost.filter(attempt__gte=MAX_ATTEMPTS).update(
        state=EvidenceState.FAILED,
        finished_at=now,
        error=f"The worker ended {MAX_ATTEMPTS} times while it wrote the bundle.",
    )
    lost.update(state=EvidenceState.WAITING, sent_at=None)
    not_sent = Q(sent_at=None) | Q(sent_at__lt=now - RESEND_AFTER) | Q(sent_at__gt=now + RESEND_AFTER)
    for evidence in Evidence.objects.filter(not_sent, state=EvidenceState.WAITING).order_by("pk"):
        if not send_evidence(evidence):
            return
    _delete_old_files(now - timedelta(days=settings.EVIDENCE_KEPT_DAYS))


def bundle_chunks(evidence: Evidence) -> Iterator[bytes]:
    """Open the bundle and return its content in parts.

    Raise StorageError or OSError if it cannot be opened.
    """
    filesystem, root = storage_root()
    return _read_chunks(filesystem.open_input_stream(f"{root}/{evidence.path}", compression=None))


def _read_chunks(file: NativeFile) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def claim_evidence(number: int) -> Evidence | None:
    """Move a waiting request to running in one statement. Return it, or None if it was not waiting."""
    is_claimed = Evidence.objects.filter(pk=number, state=EvidenceState.WAITING).update(
        state=EvidenceState.RUNNING,
        heartbeat_at=timezone.now(),
        attempt=F("attempt") + 1,
        users_done=0,
        users_total=0,
    )
    return Evidence.objects.get(pk=number) if is_claimed else None


def update_claimed(evidence: Evidence, **values) -> bool:
    """Update a request that this attempt still executes. Return whether it does."""
    rows = Evidence.objects.filter(pk=evidence.pk, state=EvidenceState.RUNNING, attempt=evidence.attempt)
    return rows.update(heartbeat_at=timezone.now(), **values) == 1


def _delete_old_files(before: datetime) -> None:
    old = Evidence.objects.filter(finished_at__lt=before).exclude(path="")
    if not old.exists():
        return
    try:
        filesystem, root = storage_root()
        for evidence in old.order_by("pk"):
            Evidence.objects.filter(pk=evidence.pk).update(path="")
            filesystem.delete_file(f"{root}/{evidence.path}")
    except (StorageError, OSError) as error:
        logger.warning("the file of old evidence could not be deleted: %s", error)
