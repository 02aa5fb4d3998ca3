"""Request evidence, write its bundle in the worker, and delete it after its retention."""

import logging
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from analytics.folders import ScratchError, scratch_folder
from analytics.storage import StorageError, storage_problem, storage_root
from authzconsole.common.messages import as_sentence
from authzconsole.evidence.bundles import store_bundle
from authzconsole.evidence.files import write_files
from authzconsole.models import Evidence
from entities.address import Address, ancestor_kinds, parse_address
from entities.vocabulary import INNER_CONTAINER_KINDS, KINDS
from grants.consistent_read import consistent_read
from grants.errors import GrantError
from grants.evidence import (
    access_periods,
    content_count,
    contents_of,
    public_key,
    read_users,
    write_bundle,
)
from grants.history import catch_up
from grants.jobs import JobContext, JobFailed, JobResult, request_job
from grants.journal import ChainBreak, current_head
from grants.models import UNFINISHED_STATES, Job, JournalHead, User
from grants.policies.times import format_time
from grants.verification import AnchorError, first_history_fault

logger = logging.getLogger(__name__)

EVIDENCE_JOB = "evidence"
MAX_UNFINISHED = 20


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
    if contents and entity.kind not in INNER_CONTAINER_KINDS:
        raise EvidenceError(
            f"{entity} has no contents: choose a namespace or an application, or only this entity"
        )
    if kind and (not contents or kind not in KINDS or entity.kind not in (kind, *ancestor_kinds(kind))):
        raise EvidenceError(
            f"{entity} contains no {kind}" if contents else "choose a kind only together with the contents"
        )
    if Job.objects.filter(type=EVIDENCE_JOB, state__in=UNFINISHED_STATES).count() >= MAX_UNFINISHED:
        raise EvidenceError(f"{MAX_UNFINISHED} requests are not finished yet: wait until one of them is")
    with transaction.atomic():
        return Evidence.objects.create(
            entity=str(entity),
            contents=contents,
            kind=kind,
            since=since,
            until=until,
            from_revision=from_revision,
            to_revision=to_revision,
            job=request_job(Job(type=EVIDENCE_JOB, requested_by=requested_by)),
        )


def execute_evidence(context: JobContext) -> JobResult:
    """Verify the journal and the history, and write the bundle of a request into the storage."""
    evidence = Evidence.objects.select_related("job__requested_by").get(job=context.job)
    try:
        return _write(evidence, context)
    except (GrantError, AnchorError, StorageError, ScratchError) as error:
        raise JobFailed(as_sentence(error)) from error
    except OSError as error:
        raise JobFailed(storage_problem(error)) from error


def _write(evidence: Evidence, context: JobContext) -> JobResult:
    catch_up()
    # what is written is what was verified, because both read the same state of the database
    with consistent_read():
        if fault := first_history_fault():
            raise EvidenceError(
                f"evidence is not signed, because the verification of the journal failed: "
                f"{fault.sentence if isinstance(fault, ChainBreak) else fault}"
            )
        context.check()
        return _write_evidence(evidence, context)


def _write_evidence(evidence: Evidence, context: JobContext) -> JobResult:
    head, entity = current_head(), parse_address(evidence.entity)
    bounds = (evidence.from_revision, evidence.to_revision + 1)
    users = read_users(bounds)
    total = content_count(entity, evidence.kind, bounds) if evidence.contents else len(users.active)
    entities = contents_of(entity, evidence.kind, bounds) if evidence.contents else iter([entity])
    periods = access_periods(entities, bounds, settings.DEFAULT_GENERATION, users)

    def progress(done: int) -> None:
        context.show_progress(done, total)
        context.check()

    with scratch_folder(settings.TEMP_DIR) as folder:
        files, figures = write_files(Path(folder), evidence, periods, len(users.active), progress)
        bundle = Path(folder) / "bundle.zip"
        write_bundle(bundle, _manifest_contents(evidence, figures, head), files)
        path, sha256 = store_bundle(bundle, "evidence", f"evidence-{evidence.pk}-{context.job.attempt}.zip")
    context.show_progress(total, total)
    return JobResult(figures, result_path=path, result_hash=sha256)


def _manifest_contents(evidence: Evidence, figures: dict[str, int], head: JournalHead) -> dict:
    return {
        "instance": settings.INSTANCE_NAME,
        "entity": evidence.entity,
        "contents": evidence.contents,
        "kind": evidence.kind,
        "from_revision": evidence.from_revision,
        "to_revision": evidence.to_revision,
        "since": format_time(evidence.since) or None,
        "until": format_time(evidence.until) or None,
        "created_at": format_time(timezone.now()),
        "requested_by": str(evidence.job.requested_by or ""),
        "figures": figures,
        "journal_head": {"revision": head.revision, "hash": head.hash, "at": format_time(head.at) or None},
    }


def delete_old_evidence() -> None:
    """Delete the files of evidence after EVIDENCE_KEPT_DAYS. A storage error is logged."""
    now = timezone.now()
    old = Job.objects.filter(
        type=EVIDENCE_JOB, finished_at__lt=now - timedelta(days=settings.EVIDENCE_KEPT_DAYS)
    ).exclude(result_path="")
    if not old.exists():
        return
    try:
        filesystem, root = storage_root()
        for job in old.order_by("pk"):
            Job.objects.filter(pk=job.pk).update(result_path="", result_removed_at=now)
            filesystem.delete_file(f"{root}/{job.result_path}")
    except (StorageError, OSError) as error:
        logger.warning("the file of old evidence could not be deleted: %s", error)
