"""Finishing a campaign, the periodic work on campaigns, and recurring campaigns."""

from datetime import timedelta

import pytest
from django.utils import timezone

from grants.errors import NotAdministrator, PlanError
from grants.models import Job, JobState, Membership, UserGrant
from grants.models.reviews import Campaign, CampaignState, ReviewItem
from grants.reviews.answers import ItemSelection, answer_items, sign_off
from grants.reviews.campaigns import months_later
from grants.reviews.errors import ReviewError
from grants.reviews.evidence_lines import evidence_lines
from grants.reviews.finishing import (
    create_result_plans,
    gone_items,
    request_finish,
    summary,
)
from grants.reviews.selection import ItemFilter, matching_items
from grants.reviews.shares import store_shares
from grants.reviews.sweep import sweep_campaigns
from tests.grants.reviews.support import answer, finish, item_of, open_campaign, prepare
from tests.support.authors import COMMAND, account, all_grants, author_named
from tests.support.changes import (
    add_grant,
    apply_plan,
    change_planned_grants,
    remove_user,
    rename_user,
    renew_plan,
    revoke_grant,
    set_user_active,
)

pytestmark = pytest.mark.usefixtures("cast")
DAY = timedelta(days=1)


def test_the_result_is_a_plan_that_ends_what_was_revoked():
    campaign = open_campaign()
    gone = item_of(campaign, "user:dee", "dataset:sales.legacy")
    revoked = item_of(campaign, "user:dee", "dataset:sales.orders")
    member = item_of(campaign, "user:grp", "group:operators")
    kept = item_of(campaign, "user:ina", "dataset:sales.orders")
    answer(campaign, [gone, revoked, member], "revoke")
    answer(campaign, [kept], "keep")
    revoke_grant("user:dee", "dataset:sales.legacy", "WRITE")
    rename_user(author=COMMAND, name="dee", new_name="dora")
    (plan,) = finish(campaign)
    assert (
        campaign.state == CampaignState.FINISHED
        and campaign.figures["revoke"] == 3
        and campaign.figures["keep"] == 1
    )
    assert {(item.verb, item.principal, item.group or str(item.address)) for item in plan.items.all()} == {
        ("revoke", "user:dora", "dataset:sales.orders"),
        ("leave", "user:grp", "group:operators"),
    }
    apply_plan(plan)
    assert ("user:dora", "dataset:sales.orders", "READ") not in all_grants() and not account(
        "grp"
    ).groups.exists()
    # a second task does not create plans again
    assert create_result_plans(campaign) == [plan]


def test_access_that_ended_is_marked_and_can_be_removed():
    ended = timezone.now() - DAY
    UserGrant.objects.filter(user=account("dee")).update(valid_until=ended)
    Membership.objects.filter(user=account("grp")).update(valid_until=ended)
    campaign = open_campaign()
    items = list(matching_items(campaign.items.all(), ItemFilter(ended=True)))
    assert {(item.principal, item.target) for item in items} == {
        ("user:dee", "dataset:sales.legacy"),
        ("user:dee", "dataset:sales.orders"),
        ("user:grp", "group:operators"),
    }
    for item in items:
        assert item.admins_left is None
        assert [
            line.text.split()[0] for line in evidence_lines(item, knows_use=True) if "end" in line.text
        ] == ["ended"]
    answer(campaign, items, "revoke")
    (plan,) = finish(campaign)
    apply_plan(plan)
    assert (
        not UserGrant.objects.filter(user=account("dee")).exists()
        and not Membership.objects.filter(user=account("grp")).exists()
    )


def test_unanswered_items_are_listed_or_revoked_as_configured():
    listed, revoked = (open_campaign(scope={"user": "dee"}, unanswered=rule) for rule in ("list", "revoke"))
    assert finish(listed) == [] and listed.figures["open"] == 2
    (plan,) = finish(revoked)
    assert {str(item.address) for item in plan.items.all()} == {
        "dataset:sales.orders",
        "dataset:sales.legacy",
    }
    assert [summary(campaign) for campaign in (listed, revoked)] == [
        f"2 items: 0 kept, 0 to revoke, 0 to shorten, 2 without an answer{end}"
        for end in ("", " (also to revoke)")
    ]
    with pytest.raises(ReviewError, match="is finished"):
        request_finish(author=COMMAND, number=listed.pk)


def test_shortened_access_gets_the_new_end_unless_it_ends_earlier_by_now():
    campaign = open_campaign(scope={"user": "grp"})
    other = open_campaign(scope={"user": "dee"})
    now = timezone.now().replace(microsecond=0)
    for each in (campaign, other):
        answer(each, ItemSelection(filter=ItemFilter()), "shorten", new_until=now + 9 * DAY)
    (plan,) = finish(campaign)
    apply_plan(plan)
    assert account("grp").memberships.get().valid_until == now + 9 * DAY
    UserGrant.objects.filter(content_object__key="sales.orders").update(valid_until=now + 2 * DAY)
    ReviewItem.objects.filter(kind="dataset", key="sales.legacy").update(new_until=now - DAY)
    (plan,) = finish(other)
    assert [(item.verb, str(item.address)) for item in plan.items.all()] == [
        ("revoke", "dataset:sales.legacy")
    ]


def test_an_end_that_passes_before_the_plan_is_applied_becomes_a_revocation():
    campaign = open_campaign(scope={"user": "dee"})
    orders, legacy = (item_of(campaign, "user:dee", f"dataset:sales.{name}") for name in ("orders", "legacy"))
    soon = timezone.now().replace(microsecond=0) + timedelta(hours=1)
    answer(campaign, [orders], "shorten", new_until=soon)
    answer(campaign, [legacy], "revoke")
    (plan,) = finish(campaign)
    change_planned_grants(plan, valid_until=timezone.now() - DAY)
    with pytest.raises(PlanError, match="in the past"):
        apply_plan(plan)
    renewed = renew_plan(plan)
    assert {(item.verb, str(item.address)) for item in renewed.items.all()} == {
        ("revoke", "dataset:sales.orders"),
        ("revoke", "dataset:sales.legacy"),
    }
    assert renewed.review_link.campaign == campaign
    apply_plan(renewed)
    assert not [grant for grant in all_grants() if grant[0] == "user:dee"]


def test_access_that_would_begin_after_its_new_end_is_revoked():
    now = timezone.now().replace(microsecond=0)
    UserGrant.objects.filter(user__username="dee").update(valid_from=now + 9 * DAY)
    campaign = open_campaign(scope={"user": "dee", "sources": ["user"]})
    answer(campaign, campaign.items.all(), "shorten", new_until=now + DAY)
    (plan,) = finish(campaign)
    assert set(plan.items.values_list("verb", flat=True)) == {"revoke"}


def test_only_administrators_finish():
    with pytest.raises(NotAdministrator):
        request_finish(author=author_named("ned"), number=open_campaign().pk)


def test_items_of_reviewers_who_leave_go_to_the_escalation():
    campaign = open_campaign(reviewer_rule="admin-holders", scope={"namespace": "sales"})
    answered = item_of(campaign, "user:dee", "dataset:sales.orders")
    ned = author_named("ned")
    answer_items(author=ned, campaign=campaign, selection=ItemSelection([answered.pk]), answer="keep")
    set_user_active("ned", active=False)
    sweep_campaigns()
    assert set(campaign.items.filter(answer="").values_list("reviewer", "escalated")) <= {
        (None, True),
        (None, False),
    }
    assert campaign.items.get(pk=answered.pk).reviewer.username == "ned"
    remove_user("ned", revokes_grants=True)
    sweep_campaigns()
    assert set(campaign.items.values_list("reviewer_id", flat=True)) == {None}
    assert sum(share.item_count for share in campaign.shares.all()) == campaign.item_count


def test_a_reviewer_who_leaves_after_the_last_answer_does_not_keep_the_review_open():
    campaign = open_campaign(reviewer_rule="admin-holders", scope={"namespace": "sales"})
    answer(campaign, list(campaign.items.all()), "keep")
    for name in ("ada", "ned"):
        assert not sweep_campaigns().finished
        if name == "ada":
            assert sign_off(author=author_named(name), campaign=campaign) is False
        else:
            set_user_active(name, active=False)
    # the shares that others signed off stay signed off when an account is removed
    remove_user("grp", revokes_grants=True)
    store_shares(campaign)
    assert campaign.shares.get(reviewer=None).signed_off_at is not None
    assert sweep_campaigns().finished == [campaign]


def test_a_campaign_is_finished_at_its_deadline():
    campaign = open_campaign()
    assert not sweep_campaigns().finished
    Campaign.objects.update(deadline=timezone.now() - DAY)
    assert sweep_campaigns().finished == [campaign]
    campaign.refresh_from_db()
    assert campaign.state == CampaignState.FINISHING and campaign.finished_by == "review"


def test_open_items_are_escalated_before_the_deadline_and_reviewers_are_reminded():
    campaign = open_campaign(
        reviewer_rule="admin-holders", escalation_days=3, reminder_days=2, scope={"namespace": "sales"}
    )
    mine = campaign.items.filter(reviewer=account("ned")).count()
    assert not sweep_campaigns().reminders
    Campaign.objects.update(opened_at=timezone.now() - 2 * DAY)
    assert sweep_campaigns().reminders == [(campaign, {account("ned").pk: mine})]
    assert not sweep_campaigns().reminders
    Campaign.objects.update(deadline=timezone.now() + 2 * DAY)
    sweep_campaigns()
    assert (
        not campaign.items.exclude(reviewer=None).exists()
        and not campaign.items.filter(escalated=False).exists()
    )
    assert Campaign.objects.get().escalated_at is not None


def test_a_recurring_campaign_shows_what_changed_since_the_last_one():
    first = open_campaign(recurrence="3", scope={"user": "dee"})
    answer(first, [item_of(first, "user:dee", "dataset:sales.orders")], "keep")
    answer(first, [item_of(first, "user:dee", "dataset:sales.legacy")], "revoke")
    (plan,) = finish(first)
    apply_plan(plan)
    add_grant("user:dee", "dataset:hr.salaries", "READ")
    assert not sweep_campaigns().created
    Campaign.objects.update(created_at=months_later(timezone.now(), -3) - DAY)
    (second,) = sweep_campaigns().created
    assert not sweep_campaigns().created and second.previous == first and second.scope == {"user": "dee"}
    second = prepare(second)
    old, new = (
        item_of(second, "user:dee", target) for target in ("dataset:sales.orders", "dataset:hr.salaries")
    )
    assert (old.is_new, old.previous_answer, new.is_new, new.previous_answer) == (False, "keep", True, "")
    assert old.last_reviewed_at is not None and [item.target for item in gone_items(second)] == [
        "dataset:sales.legacy"
    ]
    answer(second, [old], "revoke")
    finish(second)
    assert {name: second.figures[name] for name in ("new", "gone", "changed")} == {
        "new": 1,
        "gone": 1,
        "changed": 1,
    }


@pytest.mark.parametrize(
    ("start", "months", "end"),
    [
        ("2026-01-31", 1, "2026-02-28"),
        ("2026-11-30", 3, "2027-02-28"),
        ("2024-02-29", 12, "2025-02-28"),
        ("2026-03-15", -3, "2025-12-15"),
    ],
)
def test_months_end_on_an_existing_day(start, months, end):
    at = timezone.datetime.fromisoformat(start)
    assert months_later(at, months).date().isoformat() == end


def test_a_preparation_fails_after_its_last_attempt():
    campaign = open_campaign()
    Campaign.objects.update(state=CampaignState.PREPARING)
    Job.objects.update(state=JobState.FAILED, error="The worker ended during the run, 3 times in a row")
    sweep_campaigns()
    campaign.refresh_from_db()
    assert campaign.state == CampaignState.FAILED and "3 times" in campaign.error
    assert not ReviewItem.objects.exists()


def test_a_result_that_could_not_be_written_is_written_again_later():
    campaign = open_campaign()
    request_finish(author=COMMAND, number=campaign.pk)
    campaign.refresh_from_db()
    Job.objects.update(state=JobState.FAILED, finished_at=timezone.now())
    sweep_campaigns()
    assert Job.objects.get(pk=campaign.job_id).state == JobState.FAILED
    Job.objects.update(finished_at=timezone.now() - timedelta(hours=2))
    sweep_campaigns()
    assert Job.objects.get(pk=campaign.job_id).state == JobState.WAITING


def test_a_filter_selects_items_with_another_answer_than_before():
    campaign = open_campaign(scope={"user": "dee"})
    ReviewItem.objects.update(previous_answer="keep")
    answer(campaign, [item_of(campaign, "user:dee", "dataset:sales.orders")], "revoke")
    assert (
        matching_items(campaign.items.all(), ItemFilter(changed=True)).get().target == "dataset:sales.orders"
    )
