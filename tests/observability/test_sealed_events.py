"""Journal lines seal security events and webhooks, so `verify_journal` notices what SQL changes in their tables."""

from datetime import timedelta

import pytest
from django.db.models import QuerySet
from django.utils import timezone

from authzconsole.common.event_seals import seal_security_events
from authzconsole.common.monitoring.maintenance import facts_of_console
from authzconsole.common.security_events.record import EventKind, clean_security_events, record_event
from authzconsole.common.webhooks.services import create_webhook, delete_webhook, enable_webhook
from authzconsole.models import SecurityEvent, Webhook
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import JournalLine
from grants.verification.replay import first_fault

pytestmark = pytest.mark.django_db
SETUP = Author("the tests", reason="because")
URL = "https://hooks.example:8443/in/secret-path"


def fault():
    return str(first_fault(facts_of_console))


def rows():
    # the queryset of the model refuses to change rows; SQL does not
    return QuerySet(SecurityEvent)


@pytest.fixture
def events():
    for number in range(6):
        record_event(EventKind.SIGN_IN_FAILURE, account=f"user-{number}", detail="wrong password")
    rows().update(at=timezone.now() - timedelta(hours=1))
    assert seal_security_events() == 6
    line = JournalLine.objects.latest("revision")
    assert line.action == "events-seal" and " 6 since " in line.detail
    assert first_fault(facts_of_console) is None


def change_one():
    rows().filter(account="user-3").update(account="somebody else")


def add_one():
    event = SecurityEvent.objects.first()
    number = event.pk + 1
    rows().filter(pk=number).delete()
    event.pk = number
    event.save(force_insert=True)


@pytest.mark.parametrize(
    "attack",
    [
        lambda: rows().filter(account="user-3").delete(),
        lambda: rows().order_by("-pk").filter(account="user-5").delete(),
        lambda: rows().delete(),
        change_one,
        add_one,
    ],
    ids=["one deleted", "the last deleted", "all deleted", "one changed", "one replaced"],
)
def test_the_attack_on_security_events_is_noticed(events, attack):
    attack()
    assert "the content of security events" in fault()


def test_events_are_sealed_once_and_young_events_later(events):
    assert seal_security_events() == 0
    record_event(EventKind.SIGN_IN_FAILURE, account="mallory")
    assert seal_security_events() == 0
    rows().filter(account="mallory").update(at=timezone.now() - timedelta(minutes=30))
    assert seal_security_events() == 1 and first_fault(facts_of_console) is None


def test_the_retention_of_events_is_no_fault(events, settings):
    settings.SECURITY_EVENTS_KEPT_DAYS = 1
    later = timezone.now() + timedelta(days=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.utils.timezone.now", lambda: later)
        assert clean_security_events() >= 6
        assert first_fault(facts_of_console) is None


def test_webhooks_verify_after_every_change():
    webhooks = [
        create_webhook(author=SETUP, url=URL, actions=actions) for actions in ([], ["grant", "revoke"])
    ]
    create_webhook(author=SETUP, url="https://[2a00:1450::1]:8443/x", actions=["plan-apply"])
    assert first_fault(facts_of_console) is None
    enable_webhook(author=SETUP, number=webhooks[0].pk, is_enabled=False)
    enable_webhook(author=SETUP, number=webhooks[1].pk, is_enabled=False)
    enable_webhook(author=SETUP, number=webhooks[1].pk, is_enabled=True)
    delete_webhook(author=SETUP, number=webhooks[0].pk)
    # failed deliveries disable a webhook without a line
    Webhook.objects.update(is_enabled=False)
    assert first_fault(facts_of_console) is None
    assert not JournalLine.objects.filter(detail__contains="secret-path").exists()


def add_by_sql():
    Webhook.objects.create(url="https://attacker.example/", nonce="x", created_by="ada")


@pytest.mark.parametrize(
    "attack",
    [
        add_by_sql,
        lambda: Webhook.objects.update(url="https://attacker.example/"),
        lambda: Webhook.objects.update(url=f"{URL}-of-mallory"),
        lambda: Webhook.objects.update(actions="grant"),
        lambda: Webhook.objects.update(nonce="known to the attacker"),
        lambda: Webhook.objects.all().delete(),
        lambda: Webhook.objects.filter(is_enabled=False).update(is_enabled=True),
    ],
    ids=["added", "another host", "another path", "other actions", "another secret", "deleted", "enabled"],
)
def test_the_attack_on_webhooks_is_noticed(attack):
    webhook = create_webhook(author=SETUP, url=URL, actions=["revoke"])
    off = create_webhook(author=SETUP, url=URL, actions=["group-add"])
    enable_webhook(author=SETUP, number=off.pk, is_enabled=False)
    assert first_fault(facts_of_console) is None
    attack()
    assert "webhook" in fault(), webhook


def test_webhooks_of_an_earlier_version_verify_without_a_digest():
    """Version 1.1.0 wrote the host and the actions only."""
    webhook = Webhook.objects.create(url=URL, actions="grant", nonce="n", created_by="ada")
    detail = f"{webhook}, https://hooks.example:8443: grant"
    append_to_journal(lock_journal(), [JournalEntry("webhook-add", detail=detail)], author=SETUP)
    assert first_fault(facts_of_console) is None
    Webhook.objects.update(actions="revoke")
    assert f"webhook {webhook.pk}" in fault()
