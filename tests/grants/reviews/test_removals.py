"""Items whose grant, membership or entity was removed since the review began."""

import pytest

from entities.address import parse_address
from grants.models.reviews import Campaign, CampaignState, Removal
from grants.reviews.answers import ItemSelection, assign_items, preview_answer, sign_off
from grants.reviews.errors import ReviewError
from grants.reviews.finishing import (
    reason_without_plan,
    summary,
)
from grants.reviews.removals import load_current_removal, mark_removed_items, with_current_removal
from grants.reviews.selection import ItemFilter, matching_items
from grants.reviews.shares import totals, waiting_items
from grants.reviews.sweep import sweep_campaigns
from tests.grants.reviews.support import answer, check_shares, finish, item_of, open_campaign, privilege_name
from tests.support.authors import account, author_named
from tests.support.changes import (
    apply_plan,
    change_grants,
    delete_entity,
    recreate_entity,
    remove_member,
    set_user_active,
)

pytestmark = pytest.mark.usefixtures("cast")
ORDERS, LEGACY = parse_address("dataset:sales.orders"), parse_address("dataset:sales.legacy")


@pytest.fixture
def campaign() -> Campaign:
    return open_campaign()


def revoke(*rows) -> None:
    change_grants(revoke=rows)


def current(campaign: Campaign) -> dict[str, Removal]:
    """Return the marks that pages and files show, by principal and target."""
    rows, items = (
        list(campaign.items.order_by("pk")),
        with_current_removal(campaign.items.order_by("pk"), campaign),
    )
    load_current_removal(rows, campaign)
    assert [item.removal for item in rows] == [item.removal for item in items]
    return {f"{item.principal} {item.target}": item.removal for item in rows if item.removal}


def stored(campaign: Campaign) -> dict[str, str]:
    return {f"{item.principal} {item.target}": item.removed for item in campaign.items.exclude(removed="")}


def test_pages_show_at_once_and_totals_after_a_sweep_what_was_removed(campaign):
    waiting = waiting_items(account("ada"))
    revoke(("user:dee", LEGACY, "WRITE"))
    remove_member("grp", "operators")
    delete_entity(ORDERS)
    expected = {"user:dee dataset:sales.legacy": "revoked", "user:grp group:operators": "revoked"} | {
        f"{item.principal} {item.target}": "entity-deleted"
        for item in campaign.items.filter(key="sales.orders", kind="dataset")
    }
    assert len(expected) > 3 and current(campaign) == expected and stored(campaign) == {}
    sweep_campaigns()
    assert stored(campaign) == expected and current(campaign) == expected
    removed = campaign.items.exclude(removed="").count()
    assert (
        totals(campaign) == (campaign.item_count, 0, removed)
        and waiting_items(account("ada")) == waiting - removed
    )
    assert set(matching_items(campaign.items.all(), ItemFilter(answer="open"))) == set(
        campaign.items.filter(removed="")
    )
    assert set(matching_items(campaign.items.all(), ItemFilter(answer="removed"))) == set(
        campaign.items.exclude(removed="")
    )
    check_shares(campaign)


@pytest.mark.parametrize(("generation", "has_grants"), [("core", False), ("final", True)])
def test_the_items_of_a_deleted_entity_are_asked_for_again_if_it_is_live_again_with_its_grants(
    campaign, generation, has_grants
):
    delete_entity(ORDERS, generation=generation)
    sweep_campaigns()
    assert set(stored(campaign).values()) == {"entity-deleted"}
    recreate_entity(ORDERS, generation=generation)
    sweep_campaigns()
    assert set(stored(campaign).values()) == (set() if has_grants else {"revoked"})
    check_shares(campaign)


def test_an_entity_that_was_deleted_before_the_review_is_no_removal(campaign):
    delete_entity(ORDERS, generation="final")
    later = open_campaign(scope={"user": "dee"})
    sweep_campaigns()
    assert item_of(later, "user:dee", "dataset:sales.orders").entity_state == "deleted"
    assert not current(later) and not stored(later)


def test_an_item_that_no_longer_exists_is_not_answered_moved_or_waited_for(campaign):
    gone = item_of(campaign, "user:dee", "dataset:sales.legacy")
    others = list(campaign.items.exclude(pk=gone.pk))
    revoke(("user:dee", LEGACY, "WRITE"))
    sweep_campaigns()
    campaign.refresh_from_db()
    ada = author_named("ada")
    for refused in (
        lambda: answer(campaign, [gone], "keep"),
        lambda: assign_items(
            author=ada, campaign=campaign, selection=ItemSelection([gone.pk]), reviewer="ned"
        ),
    ):
        with pytest.raises(ReviewError, match="no item is selected that you can answer"):
            refused()
    assert (
        preview_answer(account=account("ada"), campaign=campaign, selection=ItemSelection([gone.pk])).count
        == 0
    )
    assert answer(campaign, [gone, *others], "keep").count == len(others)
    assert sign_off(author=ada, campaign=campaign)
    check_shares(campaign)


def test_a_share_in_which_everything_was_removed_does_not_keep_the_review_open():
    campaign = open_campaign(scope={"user": "dee", "kinds": ["dataset"]})
    revoke(*((item.principal, item.address, privilege_name(item)) for item in campaign.items.all()))
    assert sweep_campaigns().finished == [campaign]


def test_the_open_items_of_a_reviewer_who_leaves_move_without_those_that_were_removed():
    campaign = open_campaign(reviewer_rule="admin-holders")
    share = campaign.shares.get(reviewer=account("ned"))
    dee = item_of(campaign, "user:dee", "dataset:sales.orders")
    assert dee.reviewer == account("ned")
    revoke(("user:dee", ORDERS, "READ"))
    sweep_campaigns()
    set_user_active("ned", active=False)
    sweep_campaigns()
    share.refresh_from_db()
    assert (share.item_count, share.answered_count, share.removed_count) == (1, 0, 1)
    check_shares(campaign)


def test_the_result_says_what_it_leaves_out_and_a_finished_review_keeps_its_marks(campaign):
    revoked, legacy = (
        item_of(campaign, "user:dee", target) for target in ("dataset:sales.orders", "dataset:sales.legacy")
    )
    member = item_of(campaign, "user:grp", "group:operators")
    answer(campaign, [revoked, legacy], "revoke")
    revoke(("user:dee", LEGACY, "WRITE"))
    remove_member("grp", "operators")
    (plan,) = finish(campaign)
    assert [(item.principal, str(item.address)) for item in plan.items.all()] == [
        ("user:dee", "dataset:sales.orders")
    ]
    assert {name: campaign.figures[name] for name in ("revoke", "removed", "left_out", "open")} == {
        "revoke": 2,
        "removed": 1,
        "left_out": 1,
        "open": campaign.item_count - 3,
    }
    assert "1 removed. The plan leaves out 1 of the changes" in summary(campaign)
    apply_plan(plan)
    sweep_campaigns()
    assert (
        current(campaign)
        == stored(campaign)
        == {f"{item.principal} {item.target}": "revoked" for item in (legacy, member)}
    )


def test_items_of_a_deleted_entity_without_an_answer_are_not_revoked():
    campaign = open_campaign(unanswered="revoke", scope={"user": "dee", "kinds": ["dataset"]})
    delete_entity(ORDERS, generation="final")
    (plan,) = finish(campaign)
    assert {str(item.address) for item in plan.items.all()} == {"dataset:sales.legacy"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("keep", "because no item is to be revoked or shortened"),
        ("removed", "all access to revoke or shorten no longer exists"),
    ],
)
def test_a_finished_review_says_why_it_has_no_plan(campaign, change, reason):
    item = item_of(campaign, "user:dee", "dataset:sales.legacy")
    answer(campaign, [item], "keep" if change == "keep" else "revoke")
    if change == "removed":
        revoke(("user:dee", LEGACY, "WRITE"))
    assert (
        finish(campaign) == []
        and campaign.state == CampaignState.FINISHED
        and reason in reason_without_plan(campaign)
    )


def test_the_check_costs_the_same_for_every_number_of_removed_items(campaign, django_assert_num_queries):
    mark_removed_items(campaign)
    with django_assert_num_queries(1):
        mark_removed_items(campaign)
    set_user_active("dee", active=False)
    with django_assert_num_queries(3):
        mark_removed_items(campaign)
    counts = []
    for rows in (
        [("user:dee", LEGACY, "WRITE")],
        [("user:dee", ORDERS, "READ"), ("user:ina", ORDERS, "READ")],
    ):
        revoke(*rows)
        with django_assert_num_queries(20):
            mark_removed_items(campaign)
        counts.append(totals(campaign).removed)
    assert counts == [1, 3]
