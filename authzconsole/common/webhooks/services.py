"""Create, enable, disable and delete webhooks, and replay dead letters.

Every change leaves a journal line.
"""

import hashlib
import json
import secrets
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from authzconsole.common.webhooks.transport import url_fault
from authzconsole.models import Webhook
from grants.authority.transactions import administrator_transaction
from grants.errors import GrantError
from grants.journal import ACTIONS, Author, JournalEntry, append_to_journal
from grants.models import Job
from grants.roles.capabilities import Capability
from grants.verification import Fact, fact_key

MAX_WEBHOOKS = 20


class WebhookError(GrantError):
    """A webhook cannot be created or changed; the message says why."""


class UnknownWebhook(WebhookError):
    """There is no webhook with this number."""

    status = 404


def create_webhook(*, author: Author, url: str, actions: Sequence[str]) -> Webhook:
    """Create a webhook for all later journal lines with these actions, or with any action if `actions` is
    empty.

    Raise WebhookError if the URL or an action is invalid, or if there are too many webhooks.
    """
    if fault := url_fault(url):
        raise WebhookError(fault)
    if unknown := sorted(set(actions) - set(ACTIONS)):
        raise WebhookError(f"`{unknown[0][:40]}` is not an action of the journal")
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        if Webhook.objects.count() >= MAX_WEBHOOKS:
            raise WebhookError(f"there are {MAX_WEBHOOKS} webhooks already, which is the limit")
        webhook = Webhook.objects.create(
            url=url,
            actions=" ".join(action for action in ACTIONS if action in set(actions)),
            nonce=secrets.token_urlsafe(32),
            created_by=author.name,
            position=head.revision,
        )
        detail = f"{_detail(webhook, _actions(webhook))}; content {_content_digest(webhook)}"
        append_to_journal(head, [JournalEntry("webhook-add", detail=detail)], author=author)
    return webhook


def enable_webhook(*, author: Author, number: int, is_enabled: bool) -> Webhook:
    """Enable or disable a webhook.

    An enabled webhook continues where it stopped. Raise UnknownWebhook for an unknown number.
    """
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        webhook = _webhook(number)
        if webhook.is_enabled != is_enabled:
            Webhook.objects.filter(pk=number).update(is_enabled=is_enabled, attempts=0, retry_at=None)
            detail = _detail(webhook, "enabled" if is_enabled else "disabled")
            append_to_journal(head, [JournalEntry("webhook-change", detail=detail)], author=author)
    return webhook


def replay_dead_letters(*, author: Author, number: int) -> int:
    """Send all dead letters of a webhook again, before new lines. Return their number.

    Raise UnknownWebhook if there is no such webhook.
    """
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        webhook = _webhook(number)
        count = webhook.dead_letters.filter(is_replayed=False).update(is_replayed=True)
        if count:
            detail = _detail(webhook, f"{count} dead letters replayed")
            append_to_journal(head, [JournalEntry("webhook-change", detail=detail)], author=author)
    return count


def delete_webhook(*, author: Author, number: int) -> None:
    """Delete a webhook with its dead letters. Raise UnknownWebhook if there is no such webhook."""
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        webhook = _webhook(number)
        append_to_journal(head, [JournalEntry("webhook-delete", detail=_detail(webhook, ""))], author=author)
        webhook.delete()
        Job.objects.filter(pk=webhook.job_id).delete()


def _webhook(number: int) -> Webhook:
    webhook = Webhook.objects.filter(pk=number).first()
    if webhook is None:
        raise UnknownWebhook(f"there is no webhook with the number {number}")
    return webhook


def _detail(webhook: Webhook, text: str) -> str:
    return f"{webhook}, {_origin(webhook)}{f': {text}' if text else ''}"


def _origin(webhook: Webhook) -> str:
    # without the path, which can contain a secret of the receiver
    parts = urlsplit(webhook.url)
    return f"{parts.scheme}://{parts.netloc}"


def _actions(webhook: Webhook) -> str:
    return webhook.actions or "all actions"


def _content_digest(webhook: Webhook) -> str:
    """Return the SHA-256 of the fields that never change. The nonce prevents guessing the URL from it."""
    content = webhook.pk, webhook.url, webhook.actions, webhook.nonce, webhook.created_by
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def facts_of_webhooks() -> Iterator[Fact]:
    """Yield the content and the status of each webhook, which `verify_journal` compares with the journal."""
    for webhook in Webhook.objects.order_by("pk"):
        yield fact_key("webhook", webhook.pk), f"{_origin(webhook)}: {_actions(webhook)}"
        yield fact_key("webhook-content", webhook.pk), _content_digest(webhook)
        if webhook.is_enabled:
            yield fact_key("webhook-enabled", webhook.pk), "enabled"
