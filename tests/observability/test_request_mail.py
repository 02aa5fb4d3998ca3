"""Test the e-mail about access requests, and the task that expires requests and sends reminders."""

from datetime import UTC, datetime, timedelta
from smtplib import SMTPServerDisconnected

import pytest
from django.core import mail
from django.utils import timezone

from authzconsole.mail import send_due_mail
from authzconsole.tasks import sweep_access_requests
from entities.address import parse_address
from grants.models import AccessRequest, AccessRequestEvent, RequestState, User
from grants.requests.approvers import set_namespace_approvers, visible_requests
from grants.requests.decide import ask_back
from tests.grants.requests.test_requests import approve, request_access
from tests.support.authors import COMMAND, account, author_named
from tests.support.cast import create_sample_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def console(settings):
    create_sample_tenant()
    settings.EMAIL_HOST = "mail.example.com"
    for name in ("ada", "grp", "out"):
        User.objects.filter(username=name).update(email=f"{name}@example.com")
    return settings


def new_mails() -> list[tuple[str, str]]:
    """Return the recipient and the subject of each e-mail since the last call."""
    messages = [(*message.to, message.subject) for message in mail.outbox]
    mail.outbox.clear()
    return messages


def test_approvers_and_requesters_get_an_email_about_each_step_once(console):
    until = datetime(2100, 7, 1, 15, tzinfo=UTC)
    request = request_access(requested_until=until)
    sweep_access_requests()
    assert "quarterly close" in mail.outbox[0].body and f"/requests/{request.pk}/" in mail.outbox[0].body
    assert "Until:  2100-07-01 15:00 UTC\n" in mail.outbox[0].body
    assert new_mails() == [("ada@example.com", f"Access request {request.pk}: requested")]
    ask_back(author=author_named("ada"), request_id=request.pk, question="For which report?")
    sweep_access_requests()
    assert "For which report?" in mail.outbox[0].body
    assert new_mails() == [("out@example.com", f"Access request {request.pk}: asked back")]
    approve(request)
    console.DISPLAY_TIME_ZONE = "Europe/Berlin"
    sweep_access_requests()
    assert (
        "Approved: read dataset:sales.orders until 2100-07-01 17:00 CEST (2100-07-01 15:00 UTC)\n"
        in mail.outbox[0].body
    )
    assert new_mails() == [("out@example.com", f"Access request {request.pk}: approved")]
    sweep_access_requests()
    assert new_mails() == []


def test_reminders_and_expiry(console):
    request = request_access()
    sweep_access_requests()
    new_mails()
    AccessRequest.objects.update(created_at=timezone.now() - timedelta(days=4))
    sweep_access_requests()
    sweep_access_requests()
    assert new_mails() == [("ada@example.com", f"Access request {request.pk}: reminder sent")]
    AccessRequest.objects.update(expires_at=timezone.now())
    sweep_access_requests()
    assert new_mails() == [("out@example.com", f"Access request {request.pk}: expired")]
    assert AccessRequest.objects.get().state == RequestState.EXPIRED


def test_an_email_names_only_what_its_recipient_may_see():
    set_namespace_approvers(author=COMMAND, namespace=parse_address("namespace:sales"), group="operators")
    request_access("out", ("read", "dataset:sales.orders"), ("read", "dataset:hr.salaries"))
    send_due_mail()
    bodies = {message.to[0]: message.body for message in mail.outbox}
    assert "salaries" in bodies["ada@example.com"] and "salaries" not in bodies["grp@example.com"]
    mail.outbox.clear()
    like = request_access("out", wanted=(), colleague="ned")
    approve(like, choices={1: ""})
    send_due_mail()
    assert mail.outbox[-1].to == ["out@example.com"] and mail.outbox[-1].body.count("sales.") == 1


def test_approvers_of_hidden_parts_get_no_email():
    """They do not see the request, and would learn that the colleague has access in their namespace."""
    set_namespace_approvers(author=COMMAND, namespace=parse_address("namespace:sales"), group="operators")
    request = request_access("out", wanted=(), colleague="ned")
    assert not visible_requests(account("grp")).exists()
    send_due_mail()
    assert new_mails() == [("ada@example.com", f"Access request {request.pk}: requested")]


def test_nothing_is_sent_without_a_mail_server_or_about_old_events(console):
    console.EMAIL_HOST = ""
    request_access()
    sweep_access_requests()
    assert new_mails() == []
    console.EMAIL_HOST = "mail.example.com"
    AccessRequestEvent.objects.update(at=timezone.now() - timedelta(days=2))
    sweep_access_requests()
    assert new_mails() == []


def test_mail_waits_while_the_mail_server_fails(monkeypatch):
    request_access()

    def fail(*args, **kwargs):
        raise SMTPServerDisconnected("gone")

    with monkeypatch.context() as broken:
        broken.setattr("django.core.mail.EmailMessage.send", fail)
        sweep_access_requests()
    assert new_mails() == [] and AccessRequestEvent.objects.get().notified_at is None
    sweep_access_requests()
    assert len(new_mails()) == 1
