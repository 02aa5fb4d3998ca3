"""Deliver journal lines to webhooks as signed CloudEvents (Standard Webhooks), in order and at least once, from a
position per webhook.

A line that fails is repeated with growing pauses. After MAX_ATTEMPTS it becomes a dead letter, and the next
line follows.
"""

import base64
import hashlib
import hmac
import logging
import time
from datetime import timedelta

from cloudevents.core.bindings.http import to_structured_event
from cloudevents.core.v1.event import CloudEvent
from django.conf import settings
from django.db.models import F, Q
from django.utils import timezone

from authzconsole.common.webhooks.transport import WebhookFailed, post
from authzconsole.models import DeadLetter, Webhook
from grants.jobs import JobContext, JobResult, repeat_job
from grants.journal import current_revision
from grants.models import UNFINISHED_STATES, JournalLine

TYPE_PREFIX = "authzconsole.journal."
SECRET_PREFIX = "whsec_"


def secret_of(webhook: Webhook) -> str:
    """Return the secret that signs the events. It is derived, so the database does not contain it."""
    key = hmac.new(
        settings.SECRET_KEY.encode(), f"authzconsole.webhook:{webhook.nonce}".encode(), hashlib.sha256
    ).digest()
    return SECRET_PREFIX + base64.b64encode(key).decode()


def signed_request(webhook: Webhook, line: JournalLine) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of the request that delivers the line."""
    event_id = f"{line.revision}-{line.hash[:16]}"
    data = {name: getattr(line, name) for name in (*JournalLine.HASHED, "hash", "key_id", "mac")} | {
        "at": line.at.isoformat()
    }
    message = to_structured_event(
        CloudEvent(
            {
                "id": event_id,
                "source": settings.PUBLIC_URL,
                "type": TYPE_PREFIX + line.action,
                "specversion": "1.0",
                "time": line.at,
                "datacontenttype": "application/json",
                **({"subject": subject} if (subject := line.entity or line.principal) else {}),
            },
            data,
        )
    )
    body, timestamp = bytes(message.body), str(int(time.time()))
    key = base64.b64decode(secret_of(webhook).removeprefix(SECRET_PREFIX))
    signature = hmac.new(key, f"{event_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return body, {
        **message.headers,
        "Webhook-Id": event_id,
        "Webhook-Timestamp": timestamp,
        "Webhook-Signature": f"v1,{base64.b64encode(signature).decode()}",
        "User-Agent": "authzconsole",
    }


logger = logging.getLogger(__name__)

DELIVERY_JOB = "webhook-delivery"
LINES_PER_JOB = 50
MAX_SECONDS = 20
# the light worker has four threads; the other tasks need some of them
MAX_CONCURRENT = 2
MAX_ATTEMPTS = 8
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 5, 600
# a webhook with so many dead letters is disabled
MAX_DEAD_LETTERS = 1_000


def dispatch_webhooks() -> None:
    """Start the job of each webhook that has something to do, the longest waiting first."""
    now = timezone.now()
    enabled = Webhook.objects.filter(is_enabled=True)
    is_busy = Q(job__state__in=UNFINISHED_STATES)
    free = MAX_CONCURRENT - enabled.filter(is_busy).count()
    due = enabled.exclude(is_busy).filter(Q(retry_at=None) | Q(retry_at__lte=now))
    due = due.filter(Q(position__lt=current_revision()) | Q(dead_letters__is_replayed=True)).distinct()
    for webhook in due.order_by(F("retry_at").asc(nulls_first=True), "pk")[: max(0, free)]:
        repeat_job(webhook, DELIVERY_JOB)


def deliver_next_lines(context: JobContext) -> JobResult:
    """Deliver the next lines of the webhook of a job."""
    webhook = Webhook.objects.filter(job=context.job).first()
    return JobResult({"delivered": deliver_webhook(webhook) if webhook else 0})


def deliver_webhook(webhook: Webhook) -> int:
    """Deliver the next lines of one webhook and return their number: none while it is disabled or paused."""
    if not webhook.is_enabled or webhook.retry_at is not None and webhook.retry_at > timezone.now():
        return 0
    try:
        return _replay_dead_letters(webhook) + _deliver_lines(webhook)
    except _Stopped as stopped:
        return stopped.delivered


class _Stopped(Exception):
    """The webhook failed or was disabled. delivered: the number of lines before that."""

    def __init__(self, delivered: int):
        self.delivered = delivered


def _replay_dead_letters(webhook: Webhook) -> int:
    delivered = 0
    letters = webhook.dead_letters.filter(is_replayed=True).order_by("revision")
    for letter in letters[:LINES_PER_JOB]:
        line = JournalLine.objects.filter(revision=letter.revision).first()
        try:
            if line is not None:
                post(webhook.url, *signed_request(webhook, line))
        except WebhookFailed as error:
            # it stays a dead letter, and does not delay new lines
            DeadLetter.objects.filter(pk=letter.pk).update(
                is_replayed=False, error=str(error)[:300], at=timezone.now()
            )
            continue
        letter.delete()
        _count_delivery(webhook)
        delivered += 1
    return delivered


def _deliver_lines(webhook: Webhook) -> int:
    actions, delivered = webhook.actions.split(), 0
    deadline = timezone.now() + timedelta(seconds=MAX_SECONDS)
    lines = JournalLine.objects.filter(revision__gt=webhook.position).order_by("revision")
    for line in lines[:LINES_PER_JOB] if not actions else lines.filter(action__in=actions)[:LINES_PER_JOB]:
        if timezone.now() > deadline:
            return delivered
        if not Webhook.objects.filter(pk=webhook.pk, is_enabled=True).exists():
            raise _Stopped(delivered)
        try:
            post(webhook.url, *signed_request(webhook, line))
        except WebhookFailed as error:
            _record_failure(webhook, line, str(error))
            raise _Stopped(delivered) from None
        _count_delivery(webhook, position=line.revision, attempts=0, retry_at=None, error="")
        delivered += 1
    if delivered < LINES_PER_JOB:
        _skip_other_actions(webhook, actions)
    return delivered


def _count_delivery(webhook: Webhook, **values) -> None:
    Webhook.objects.filter(pk=webhook.pk).update(
        delivered=F("delivered") + 1, delivered_at=timezone.now(), **values
    )


def _skip_other_actions(webhook: Webhook, actions: list[str]) -> None:
    """Move the position to the newest line, if no line after it has one of the actions."""
    webhook.refresh_from_db(fields=["position"])
    revision = current_revision()
    later = JournalLine.objects.filter(revision__gt=webhook.position, revision__lte=revision)
    if actions and revision > webhook.position and not later.filter(action__in=actions).exists():
        Webhook.objects.filter(pk=webhook.pk, position__lt=revision).update(position=revision)


def _record_failure(webhook: Webhook, line: JournalLine, error: str) -> None:
    attempts, now = webhook.attempts + 1, timezone.now()
    logger.warning("%s did not accept line %d, attempt %d: %s", webhook, line.revision, attempts, error)
    if attempts < MAX_ATTEMPTS:
        pause = min(FIRST_PAUSE_SECONDS * 2 ** (attempts - 1), MAX_PAUSE_SECONDS)
        Webhook.objects.filter(pk=webhook.pk).update(
            attempts=attempts, retry_at=now + timedelta(seconds=pause), error=error[:300]
        )
        return
    DeadLetter.objects.update_or_create(
        webhook=webhook,
        revision=line.revision,
        defaults={"at": now, "error": error[:300], "is_replayed": False},
    )
    Webhook.objects.filter(pk=webhook.pk).update(
        position=line.revision,
        attempts=0,
        retry_at=now + timedelta(seconds=FIRST_PAUSE_SECONDS),
        error=error[:300],
    )
    if webhook.dead_letters.count() >= MAX_DEAD_LETTERS:
        logger.error("%s is disabled, because %d lines could not be delivered", webhook, MAX_DEAD_LETTERS)
        Webhook.objects.filter(pk=webhook.pk).update(is_enabled=False)
