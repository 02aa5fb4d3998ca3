"""Answers: who may give them, their counts, and how they are undone and moved."""

from datetime import timedelta

import pytest
from django.utils import timezone

from grants.errors import NotAdministrator
from grants.journal import current_revision
from grants.models import User
from grants.models.reviews import CampaignState, ReviewItem
from grants.reviews.answers import ItemSelection, answer_items, assign_items, preview_answer, sign_off
from grants.reviews.campaigns import cancel_campaign
from grants.reviews.errors import ReviewError
from grants.reviews.selection import (
    ItemFilter,
    matching_items,
    parse_filter,
    visible_campaigns,
    visible_items,
)
from grants.reviews.shares import totals
from tests.grants.reviews.support import answer, check_shares, item_of, open_campaign
from tests.support.authors import COMMAND, account, author_named, lines_after
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_grant, add_member, set_user_active

pytestmark = pytest.mark.django_db
ALL = ItemSelection(filter=ItemFilter())


@pytest.fixture(autouse=True)
def cast():
    """ned reviews what others hold in `sales`; his own grants go to administrators."""
    create_sample_tenant()
    add_grant("user:ada", "dataset:hr.salaries", "READ")


@pytest.fixture
def campaign():
    return open_campaign(reviewer_rule="admin-holders")


def one(item: ReviewItem) -> ItemSelection:
    return ItemSelection([item.pk])


def test_a_reviewer_answers_changes_and_undoes_an_item(campaign):
    item = item_of(campaign, "user:dee", "dataset:sales.orders")
    before = current_revision()
    outcome = answer(campaign, [item], "revoke", by="ned", comment="moved on")
    assert outcome.sentence == "marked to revoke 1 item"
    item.refresh_from_db()
    assert (item.answer, item.comment, item.answered_by) == (
        "revoke",
        "moved on",
        "ned",
    ) and item.answered_at is not None
    assert lines_after(before) == [
        ("review-answer", "user:dee", "dataset:sales.orders", "READ", f"{campaign}: revoke")
    ]
    answer(campaign, [item], "keep", by="ned")
    assert totals(campaign)[1] == 1
    answer(campaign, [item], "", by="ned")
    item.refresh_from_db()
    assert (item.answer, item.comment, item.answered_by, item.answered_at) == ("", "", "", None)
    check_shares(campaign)


def test_an_answer_that_replaces_one_of_another_person_says_so(campaign):
    item = item_of(campaign, "user:dee", "dataset:sales.orders")
    assert answer(campaign, [item], "keep", by="ned").sentence == "kept 1 item"
    assert answer(campaign, [item], "revoke", by="ned").sentence == "marked to revoke 1 item"
    outcome = answer(campaign, [item], "keep", by="ada")
    assert outcome.sentence == "kept 1 item; this replaces 1 answer of ned"


def test_the_line_about_a_membership_names_the_group(campaign):
    before = current_revision()
    item = campaign.items.filter(source="membership").first()
    answer(campaign, [item], "keep")
    assert lines_after(before) == [
        ("review-answer", item.principal, "", "", f"{campaign}: keep {item.target}")
    ]


def test_more_items_than_can_be_selected_leave_one_line(campaign, monkeypatch):
    monkeypatch.setattr("grants.reviews.answers.MAX_SELECTED", 1)
    before = current_revision()
    outcome = answer(campaign, ItemSelection(filter=ItemFilter()), "keep")
    assert lines_after(before) == [("review-answer", "", "", "", f"{campaign}: keep {outcome.count} items")]


def test_a_bulk_answer_is_previewed_and_leaves_a_line_for_each_item(campaign):
    selection = ItemSelection(filter=ItemFilter(answer="open", kind="dataset"))
    preview = preview_answer(account=account("ned"), campaign=campaign, selection=selection)
    before = current_revision()
    outcome = answer(campaign, selection, "keep", by="ned")
    assert (
        outcome.count
        == preview.count
        == campaign.items.filter(reviewer=account("ned"), kind="dataset").count()
        > 1
    )
    assert (preview.answered, preview.own, preview.strands) == (0, 0, 0) and sum(
        preview.by_source.values()
    ) == preview.count
    assert len(lines_after(before)) == outcome.count
    check_shares(campaign)


def test_reviewers_see_and_answer_only_their_items(campaign):
    foreign = item_of(campaign, "user:ada", "dataset:hr.salaries")
    assert foreign.reviewer is None
    assert set(visible_items(account("ned"), campaign).values_list("reviewer__username", flat=True)) == {
        "ned"
    }
    assert (
        not visible_items(account("dee"), campaign).exists()
        and not visible_campaigns(account("dee")).exists()
    )
    assert visible_campaigns(account("ned")).exists() and visible_campaigns(account("aud")).exists()
    assert visible_items(account("aud"), campaign).count() == campaign.item_count
    for name in ("ned", "dee", "aud"):
        with pytest.raises(ReviewError, match="no item is selected"):
            answer(campaign, [foreign], "keep", by=name)
    assert not ReviewItem.objects.exclude(answer="").exists()


def test_nobody_reviews_their_own_access(campaign):
    own = item_of(campaign, "user:ada", "dataset:hr.salaries")
    with pytest.raises(ReviewError, match="about your own access"):
        answer(campaign, [own], "keep")
    outcome = answer(campaign, ALL, "keep")
    assert outcome.own == 1 and outcome.count == campaign.item_count - 1
    # the grants of a group are the access of its members
    of_group = item_of(campaign, "group:operators", "program:sales.shop.workflow.daily")
    add_member("ned", "operators")
    with pytest.raises(ReviewError, match="about your own access"):
        answer(campaign, [of_group], "revoke", by="ned")


def test_an_inactive_reviewer_and_a_command_cannot_answer(campaign):
    author, item = author_named("ned"), item_of(campaign, "user:dee", "dataset:sales.orders")
    set_user_active("ned", active=False)
    for each in (author, COMMAND):
        with pytest.raises(NotAdministrator):
            answer_items(author=each, campaign=campaign, selection=one(item), answer="keep")


def test_shortening_needs_an_earlier_end_in_the_future(campaign):
    item = item_of(campaign, "user:dee", "dataset:sales.orders")
    later = timezone.now().replace(microsecond=0) + timedelta(days=30)
    ReviewItem.objects.filter(pk=item.pk).update(valid_until=later)
    for until, message in (
        (None, "needed"),
        (timezone.now() - timedelta(days=1), "past"),
        (later.replace(tzinfo=None), "zone"),
        (later + timedelta(days=1), "ends before"),
    ):
        with pytest.raises(ReviewError, match=message):
            answer(campaign, [item], "shorten", by="ned", new_until=until)
    until = later - timedelta(days=5)
    answer(campaign, [item], "shorten", by="ned", new_until=until)
    item.refresh_from_db()
    assert (item.answer, item.new_until) == ("shorten", until)
    with pytest.raises(ReviewError, match="only with the answer"):
        answer(campaign, [item], "keep", by="ned", new_until=until)


def test_items_are_returned_to_the_escalation_and_assigned_by_administrators(campaign):
    item = item_of(campaign, "user:dee", "dataset:sales.orders")
    answer(campaign, [item], "keep", by="ned")
    with pytest.raises(ReviewError, match="only administrators"):
        assign_items(author=author_named("ned"), campaign=campaign, selection=one(item), reviewer="out")
    assign_items(author=author_named("ned"), campaign=campaign, selection=one(item), comment="not mine")
    item.refresh_from_db()
    assert (item.reviewer, item.escalated, item.answer) == (None, True, "")
    check_shares(campaign)
    for name in ("none", "ina"):
        with pytest.raises(ReviewError, match="cannot review"):
            assign_items(author=author_named("ada"), campaign=campaign, selection=one(item), reviewer=name)
    assign_items(author=author_named("ada"), campaign=campaign, selection=one(item), reviewer="out")
    assert visible_items(account("out"), campaign).get() == item
    # an item does not go to the user it is about
    assign_items(author=author_named("ada"), campaign=campaign, selection=one(item), reviewer="dee")
    item.refresh_from_db()
    assert item.reviewer is None
    check_shares(campaign)


def test_nobody_undoes_or_directs_the_answer_about_their_own_access(campaign):
    own = item_of(campaign, "user:ada", "dataset:hr.salaries")
    User.objects.filter(username="out").update(role="administrator")
    with pytest.raises(ReviewError, match="about your own access"):
        assign_items(author=author_named("ada"), campaign=campaign, selection=one(own), reviewer="out")
    assign_items(author=author_named("ada"), campaign=campaign, selection=one(own))
    answer(campaign, [own], "revoke", by="out")
    for reviewer in ("", "out"):
        with pytest.raises(ReviewError, match="about your own access"):
            assign_items(author=author_named("ada"), campaign=campaign, selection=one(own), reviewer=reviewer)
    assert assign_items(author=author_named("ada"), campaign=campaign, selection=ALL).own == 1
    own.refresh_from_db()
    assert own.answer == "revoke"


def test_a_part_is_signed_off_when_every_item_has_an_answer(campaign):
    with pytest.raises(ReviewError, match="no answer yet"):
        sign_off(author=author_named("ned"), campaign=campaign)
    answer(campaign, ALL, "keep", by="ned")
    assert sign_off(author=author_named("ned"), campaign=campaign) is False
    first = campaign.items.filter(reviewer=account("ned")).first()
    answer(campaign, [first], "", by="ned")
    assert campaign.shares.get(reviewer=account("ned")).signed_off_at is None
    with pytest.raises(ReviewError, match="no items"):
        sign_off(author=author_named("out"), campaign=campaign)


def test_too_many_items_and_invalid_answers_are_refused(campaign):
    with pytest.raises(ReviewError, match="more than 1 items"):
        answer(campaign, ALL, "keep", max_items=1)
    with pytest.raises(ReviewError, match="1,000 are allowed"):
        answer(campaign, ItemSelection(range(1, 1_002)), "keep")
    with pytest.raises(ReviewError, match="is not an answer"):
        answer(campaign, ALL, "maybe")
    with pytest.raises(ReviewError, match="is not a filter"):
        parse_filter({"size": "1"})


def test_filters_select_by_evidence(campaign):
    items = ReviewItem.objects.filter(campaign=campaign)
    assert (
        {item.target for item in matching_items(items, parse_filter({"strands": True}))}
        == {item.target for item in items if item.admins_left is not None}
        != set()
    )
    assert (
        matching_items(items, parse_filter({"reviewer": "administrators"})).count()
        == items.filter(reviewer=None).count()
    )
    assert {
        item.principal_name
        for item in matching_items(items, parse_filter({"reviewer": "ned", "privilege": "READ"}))
    } == {"dee", "ina"}
    assert matching_items(items, parse_filter({"unused": True})).count() == items.count()


def test_items_of_a_cancelled_campaign_cannot_be_answered(campaign):
    item = item_of(campaign, "user:dee", "dataset:sales.orders")
    assert cancel_campaign(author=COMMAND, number=campaign.pk).state == CampaignState.CANCELLED
    with pytest.raises(ReviewError, match="is cancelled"):
        answer(campaign, [item], "keep", by="ned")
    assert not visible_items(account("ned"), campaign).exists()
    with pytest.raises(ReviewError, match="cannot be cancelled"):
        cancel_campaign(author=COMMAND, number=campaign.pk)
    with pytest.raises(NotAdministrator):
        cancel_campaign(author=author_named("ned"), number=open_campaign().pk)
