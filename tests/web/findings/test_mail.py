"""Owners, and accounts that choose it, get an e-mail about new errors, if they may see them."""

import pytest
from django.core import mail

from authzconsole.findings.refresh import store_findings
from authzconsole.findings.services import accept_findings, assign_findings
from authzconsole.findings.sources import Found
from authzconsole.mail import LISTED_MOST, send_finding_mail
from authzconsole.models import Finding
from grants.models import Role, User
from tests.support.authors import COMMAND
from tests.web.findings.test_refresh import AUTHOR, LATER

pytestmark = pytest.mark.django_db
KINDS = ("no-admin-holder", "one-admin-holder")


@pytest.fixture(autouse=True)
def mail_server(cast, settings):
    settings.EMAIL_HOST = "mail.example.com"
    for name in ("ada", "aud", "ned", "dee"):
        User.objects.filter(username=name).update(email=f"{name}@example.com")


def find(**figures):
    """Find entities without an ADMIN holder in these namespaces, and one that is only a warning."""
    errors = [Found("no-admin-holder", f"namespace:{name}", figure) for name, figure in figures.items()]
    store_findings(KINDS, [*errors, Found("one-admin-holder", "namespace:sales", 1)])


def recipients() -> list[str]:
    sent = send_finding_mail()
    messages, mail.outbox[:] = list(mail.outbox), []
    assert sent == len(messages) and all(len(message.to) == 1 for message in messages)
    return [message.to[0].partition("@")[0] for message in messages]


def choose(client, wanted: str) -> None:
    assert client.post("/findings/mail", {"wanted": wanted}).status_code == 303


def test_an_account_that_chose_it_gets_one_email_about_all_new_errors(browse):
    auditor = browse("aud")
    assert "E-mail me new errors" in auditor.html("/findings/")
    choose(auditor, "yes")
    assert "Stop e-mail about errors" in auditor.html("/findings/")
    send_finding_mail()
    mail.outbox.clear()
    find(hr=2, sales=1)
    assert send_finding_mail() == 1 and send_finding_mail() == 0
    (message,) = mail.outbox
    assert message.to == ["aud@example.com"] and message.subject == "2 new errors in the inbox"
    number = Finding.objects.get(kind="no-admin-holder", subject="namespace:hr").pk
    assert "2 live entities without an ADMIN holder (namespace:hr)" in message.body
    assert f"/findings/{number}/" in message.body and "only one ADMIN holder" not in message.body
    mail.outbox.clear()
    choose(auditor, "no")
    find(hr=2)
    find(hr=2, sales=1)
    assert recipients() == []


def test_the_owner_gets_an_email_when_an_error_opens_again():
    find(hr=1, sales=1)
    assert recipients() == []
    numbers = [
        Finding.objects.get(kind="no-admin-holder", subject=f"namespace:{name}").pk
        for name in ("hr", "sales")
    ]
    assign_findings(numbers[:1], owner="aud", author=COMMAND)
    accept_findings(numbers, until=LATER, author=AUTHOR)
    find(hr=1, sales=1)
    assert recipients() == []
    find(hr=2, sales=2)
    assert recipients() == ["aud"]
    find()
    find(hr=1)
    assert recipients() == ["aud"]


@pytest.mark.parametrize(
    "change", [{"role": Role.ORDINARY}, {"is_active": False}, {"email": ""}, {"role": Role.APPROVER}]
)
def test_who_may_not_see_findings_gets_no_email(change):
    User.objects.filter(username__in=["ada", "aud"]).update(wants_finding_mail=True)
    User.objects.filter(username="aud").update(**change)
    find(hr=1)
    Finding.objects.update(owner=User.objects.get(username="aud"))
    assert recipients() == ["ada"]


def test_an_email_lists_at_most_some_findings():
    User.objects.filter(username="ada").update(wants_finding_mail=True)
    find(**{f"n{number}": 1 for number in range(LISTED_MOST + 3)})
    assert send_finding_mail() == 1
    assert mail.outbox[0].body.count("ADMIN holder") == LISTED_MOST and "and 3 more" in mail.outbox[0].body


def test_the_email_waits_if_the_mail_server_fails(settings):
    User.objects.filter(username="ada").update(wants_finding_mail=True)
    find(hr=1)
    backend = settings.EMAIL_BACKEND
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_TIMEOUT = "127.0.0.1", 9, 1
    assert send_finding_mail() == 0
    settings.EMAIL_BACKEND = backend
    assert recipients() == ["ada"]


def test_without_a_mail_server_nothing_is_sent_or_offered(browse, settings):
    settings.EMAIL_HOST = ""
    User.objects.filter(username="ada").update(wants_finding_mail=True)
    find(hr=1)
    assert send_finding_mail() == 0 and "e-mail" not in browse("ada").html("/findings/").lower()
