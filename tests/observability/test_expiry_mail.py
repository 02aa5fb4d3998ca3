"""Test the e-mail that tells users which of their grants and memberships have ended."""

from datetime import UTC, datetime, timedelta
from smtplib import SMTPServerDisconnected

import pytest
from django.core import mail
from django.utils import timezone

from authzconsole.mail import _position, send_expiry_mail
from authzconsole.models import MaintenanceRecord, MaintenanceTask
from authzconsole.tasks import write_lines_of_periods
from entities.address import parse_address
from grants.changes.period_lines import write_period_lines
from grants.journal import current_revision
from grants.models import User
from grants.validity import Validity
from tests.support.authors import COMMAND
from tests.support.changes import add_member, change_grants, rename_user
from tests.support.tenant_documents import entity, import_lines, user

pytestmark = pytest.mark.django_db
ORDERS = parse_address("dataset:sales.orders")
START = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
END = START + timedelta(hours=1)
PERIOD = Validity(None, END)


@pytest.fixture(autouse=True)
def clock(monkeypatch, settings):
    """A clock that tests set. It begins at START, and the console has a mail server."""
    settings.EMAIL_HOST, settings.PUBLIC_URL = "mail.example.com", "https://console.example.com"
    clock = {"now": START}
    monkeypatch.setattr(timezone, "now", lambda: clock["now"])
    import_lines(
        entity(str(ORDERS)), user("ann"), user("bob"), '{"type":"group","name":"staff","members":[]}'
    )
    User.objects.filter(username="ann").update(email="ann@example.com")
    write_lines_of_periods()
    return clock


def grant(principal: str, *privileges: str) -> None:
    change_grants(grant=[(principal, ORDERS, privilege, PERIOD) for privilege in privileges])


def test_a_user_gets_one_email_about_all_access_that_ended(clock):
    grant("user:ann", "READ", "WRITE")
    # a group and a user without an e-mail address get none
    grant("group:staff", "ADMIN")
    grant("user:bob", "READ")
    add_member("ann", "staff", validity=PERIOD)
    write_lines_of_periods()
    assert mail.outbox == []
    clock["now"] = END
    write_lines_of_periods()
    (message,) = mail.outbox
    assert message.to == ["ann@example.com"] and message.subject == "3 grants and memberships ended"
    until = f"until {END:%Y-%m-%d %H:%M} UTC\n"
    for what in (f"READ on {ORDERS}", f"WRITE on {ORDERS}", "the membership in group:staff"):
        assert f"{what}, {until}" in message.body
    assert "https://console.example.com/my-access" in message.body
    write_lines_of_periods()
    assert len(mail.outbox) == 1


def test_long_lists_are_shortened(clock, monkeypatch):
    monkeypatch.setattr("authzconsole.mail.LISTED_MOST", 1)
    grant("user:ann", "READ", "WRITE")
    clock["now"] = END
    write_lines_of_periods()
    assert mail.outbox[0].body.count("until") == 1 and "and 1 more" in mail.outbox[0].body


def test_a_user_who_was_renamed_since_gets_the_email(clock):
    grant("user:ann", "READ")
    clock["now"] = END
    write_period_lines()
    rename_user(author=COMMAND, name="ann", new_name="anna")
    assert send_expiry_mail() == 1 and mail.outbox[0].to == ["ann@example.com"]


def test_nothing_is_sent_without_a_mail_server_or_about_old_lines(clock, settings):
    grant("user:ann", "READ")
    settings.EMAIL_HOST = ""
    clock["now"] = END
    write_lines_of_periods()
    settings.EMAIL_HOST = "mail.example.com"
    clock["now"] = END + timedelta(days=1)
    write_lines_of_periods()
    assert mail.outbox == []


def test_mail_waits_while_the_mail_server_fails(clock, monkeypatch):
    grant("user:ann", "READ")
    clock["now"] = END

    def fail(*args, **kwargs):
        raise SMTPServerDisconnected("gone")

    with monkeypatch.context() as broken:
        broken.setattr("django.core.mail.EmailMessage.send", fail)
        write_lines_of_periods()
    record = MaintenanceRecord.objects.get(task=MaintenanceTask.EXPIRY_MAIL)
    assert mail.outbox == [] and not record.is_ok and "the mail server failed" in record.text
    write_lines_of_periods()
    assert len(mail.outbox) == 1
    record.refresh_from_db()
    assert record.is_ok and record.revision == current_revision()


def test_many_lines_are_read_in_parts(clock, monkeypatch):
    monkeypatch.setattr("authzconsole.mail.LINES_AT_ONCE", 2)
    grant("user:ann", "READ", "WRITE", "EXECUTE")
    clock["now"] = END
    write_period_lines()
    assert [send_expiry_mail() for _ in range(3)] == [1, 1, 0]
    assert [message.subject for message in mail.outbox] == [
        "2 grants and memberships ended",
        "1 grant or membership ended",
    ]


def test_two_workers_do_not_send_the_same_email(clock, monkeypatch):
    grant("user:ann", "READ")
    clock["now"] = END
    write_period_lines()
    position = _position()
    assert send_expiry_mail() == 1
    # the second worker has read the position before the first one moved it
    monkeypatch.setattr("authzconsole.mail._position", lambda: position)
    assert send_expiry_mail() == 0 and len(mail.outbox) == 1
    # a journal that is shorter than the position was restored
    monkeypatch.setattr("authzconsole.mail._position", lambda: 10**6)
    assert send_expiry_mail() == 0


def test_queries_do_not_depend_on_the_number_of_lines(clock, django_assert_num_queries):
    grant("user:ann", "READ", "WRITE", "EXECUTE")
    clock["now"] = END
    write_period_lines()
    with django_assert_num_queries(6):
        assert send_expiry_mail() == 1
    with django_assert_num_queries(4):
        assert send_expiry_mail() == 0
