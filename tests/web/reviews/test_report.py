"""The report for readers in the evidence of a review."""

import io

import pytest

from authzconsole.reviews.bundle import CSV_NAME, GONE_NAME, campaign_summary, write_report
from grants.models.reviews import ItemSource, ReviewItem
from grants.reviews.finishing import figures
from tests.grants.reviews.support import open_campaign

pytestmark = pytest.mark.django_db


def report_of(campaign) -> str:
    file = io.StringIO()
    write_report(file, campaign, campaign_summary(campaign), csv_name=CSV_NAME, gone_name=GONE_NAME)
    return file.getvalue()


def test_a_report_has_every_section_and_names_the_file_with_further_items(cast, monkeypatch):
    monkeypatch.setattr("authzconsole.reviews.bundle.MAX_ITEMS_OF_SECTION", 1)
    first = open_campaign(scope={"namespace": "sales"})
    review = open_campaign(title="Review of <sales>", description="Keep what is used", scope={"user": "dee"})
    review.previous = first
    review.save()
    ReviewItem.objects.filter(campaign=review, source=ItemSource.USER).update(
        answer="revoke", answered_by="ada", answered_at=review.created_at, comment="<b>left</b>"
    )
    review.figures = figures(review)
    page = report_of(review)
    assert review.figures["revoke"] == 2 and "1 further items are in items.csv" in page
    assert f"{review.figures['gone'] - 1} further items are in gone.jsonl" in page
    assert all(
        f"<h2>{title}: {review.figures[name]}</h2>" in page
        for title, name in (
            ("Revoke", "revoke"),
            ("Shorten", "shorten"),
            ("Unanswered", "open"),
            ("Keep", "keep"),
        )
    )
    assert (
        "Review of &lt;sales&gt;" in page
        and "&lt;b&gt;left&lt;/b&gt;" in page
        and "Keep what is used" in page
    )


def test_the_cost_of_a_report_does_not_grow_with_its_items(cast, django_assert_num_queries):
    for scope in ({"user": "dee"}, {"sources": ["user", "group"]}):
        review = open_campaign(scope=scope)
        review.figures, summary = figures(review), campaign_summary(review)
        with django_assert_num_queries(6):
            write_report(io.StringIO(), review, summary, csv_name=CSV_NAME, gone_name=GONE_NAME)
