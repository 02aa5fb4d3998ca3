"""E-mails to reviewers: at the start, and as reminders, only to reviewers with open items."""

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from authzconsole.reviews.execution import sweep_reviews
from grants.models import User
from grants.models.reviews import Campaign
from grants.reviews.campaigns import CampaignOptions, create_campaign
from tests.support.authors import COMMAND
from tests.support.jobs import execute_preparation

pytestmark = pytest.mark.django_db


@pytest.fixture
def number(cast) -> int:
    """Return the number of a review in which ned has three items and administrators have the others."""
    User.objects.filter(username__in=["ned", "dee"]).update(email="reviewer@example.com")
    return create_campaign(
        author=COMMAND,
        options=CampaignOptions(
            "Quarterly review",
            timezone.now() + timedelta(days=14),
            scope={"namespace": "sales"},
            reviewer_rule="admin-holders",
            reminder_days=2,
        ),
    ).pk


def test_reviewers_get_an_e_mail_at_the_start_and_reminders(number, settings, mailoutbox):
    settings.EMAIL_HOST, settings.PUBLIC_URL = "mail.example.com", "https://console.example.com"
    settings.DISPLAY_TIME_ZONE = "Asia/Tokyo"
    execute_preparation(number=number)
    assert [(mail.to, mail.subject) for mail in mailoutbox] == [
        (["reviewer@example.com"], f"Access review {number}: 3 items to answer")
    ]
    deadline = timezone.localtime(Campaign.objects.get().deadline, ZoneInfo("Asia/Tokyo"))
    in_utc = timezone.localtime(deadline, ZoneInfo("UTC"))
    assert f"Deadline: {deadline:%Y-%m-%d %H:%M} JST ({in_utc:%Y-%m-%d %H:%M} UTC)\n" in mailoutbox[0].body
    assert (
        "has begun" in mailoutbox[0].body
        and f"https://console.example.com/reviews/{number}/" in mailoutbox[0].body
    )
    sweep_reviews()
    assert len(mailoutbox) == 1
    Campaign.objects.update(opened_at=timezone.now() - timedelta(days=3))
    sweep_reviews()
    sweep_reviews()
    assert len(mailoutbox) == 2 and "still have 3 items" in mailoutbox[1].body


def test_a_mail_server_that_fails_does_not_stop_a_review(number, settings, monkeypatch):
    settings.EMAIL_HOST = "mail.example.com"

    def fail(*args, **kwargs):
        raise ConnectionRefusedError

    monkeypatch.setattr("authzconsole.reviews.execution.EmailMessage.send", fail)
    execute_preparation(number=number)
    assert Campaign.objects.get().is_open


def test_nothing_is_sent_without_a_mail_server(number, settings, mailoutbox):
    settings.EMAIL_HOST = ""
    execute_preparation(number=number)
    assert not mailoutbox
