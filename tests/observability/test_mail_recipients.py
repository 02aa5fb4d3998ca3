"""An account with an e-mail that is no address does not stop the e-mails to others.

An administrator could otherwise suppress the announcement of break-glass access with a changed e-mail.
"""

import pytest

from authzconsole.mail import send_break_glass_mail, send_due_mail
from authzconsole.reviews.execution import remind_reviewers
from grants.authority.break_glass import start_break_glass
from grants.journal import Author
from grants.models import Role, User
from grants.principals.services import set_user_email
from tests.grants.requests.test_requests import request_access
from tests.grants.reviews.support import open_campaign
from tests.support.authors import COMMAND
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_group, add_member

pytestmark = pytest.mark.django_db
NO_ADDRESS = ["first@example.com, second@example.com", "@", "<a@example.com> rest"]


class MailServer:
    """Replaces `smtplib.SMTP`, and keeps the recipients."""

    recipients: list[str] = []

    def __init__(self, *args, **kwargs):
        pass

    def sendmail(self, sender, recipients, message):
        self.recipients.extend(recipients)

    def starttls(self, **kwargs):
        pass

    def quit(self):
        pass


@pytest.fixture(autouse=True, params=NO_ADDRESS)
def cast(request, settings, monkeypatch):
    settings.EMAIL_HOST, settings.EMAIL_BACKEND = (
        "mail.example.com",
        "django.core.mail.backends.smtp.EmailBackend",
    )
    monkeypatch.setattr("smtplib.SMTP", MailServer)
    monkeypatch.setattr(MailServer, "recipients", [])
    cast = create_sample_tenant()
    # ada precedes zoe, and ned precedes dee in the order of accounts
    User.objects.create(username="zoe", role=Role.ADMINISTRATOR, email="zoe@example.com")
    for name, email in (("ada", request.param), ("ned", request.param), ("dee", "dee@example.com")):
        set_user_email(author=COMMAND, name=name, email=email)
    return cast


def test_break_glass_access_is_announced_to_the_others(cast, settings):
    settings.BREAK_GLASS_ACCOUNTS = ["ada"]
    start_break_glass(author=Author("ada", reason="payroll is blocked", user_id=cast["ada"].pk))
    assert (send_break_glass_mail(), MailServer.recipients) == (1, ["zoe@example.com"])
    assert send_break_glass_mail() == 0


def test_other_approvers_get_the_email_about_a_request():
    request_access()
    assert (send_due_mail(), MailServer.recipients) == (1, ["zoe@example.com"])


def test_other_reviewers_are_reminded():
    add_group("reviewers")
    for name in ("ned", "dee"):
        add_member(name, "reviewers")
    campaign = open_campaign(reviewer_rule="group", reviewer_group="reviewers")
    assert (remind_reviewers(campaign), MailServer.recipients) == (1, ["dee@example.com"])
