"""With FOUR_EYES, one person cannot use a review to end access if two people are needed, and no account
reviews its own access."""

from datetime import timedelta

import pytest
from django.utils import timezone

from grants.authority.four_eyes import recent_change_count
from grants.errors import SecondPersonRequired
from grants.models import Role, User
from grants.models.reviews import ReviewItem
from grants.reviews.answers import ItemSelection, answer_items, preview_answer
from grants.reviews.campaigns import CampaignOptions, create_campaign
from grants.reviews.errors import ReviewError
from grants.reviews.selection import ItemFilter
from grants.reviews.sweep import sweep_campaigns
from tests.grants.reviews.support import answer, finish, item_of, open_campaign
from tests.support.authors import COMMAND, account, author_named
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_grant, add_user, apply_plan, rename_user

pytestmark = pytest.mark.django_db
ALL = ItemSelection(filter=ItemFilter())


@pytest.fixture(autouse=True)
def cast(settings):
    settings.FOUR_EYES, settings.FOUR_EYES_MAX_ITEMS, settings.PROTECTED_NAMESPACES = True, 2, ["sales"]
    cast = create_sample_tenant()
    for name in ("bob", "cat"):
        cast[name] = User.objects.create(username=name, role=Role.ADMINISTRATOR, is_principal=False)
    add_user("robot", role=Role.ADMINISTRATOR, is_service=True)
    return cast


@pytest.mark.parametrize("answer", ["revoke", "shorten"])
@pytest.mark.parametrize("reviewer", ["ada", "robot"])
def test_who_answered_does_not_apply_the_result(answer, reviewer):
    campaign = open_campaign(scope={"user": "dee"})
    author = author_named(reviewer, token_by="ada" if reviewer == "robot" else "")
    answer_items(
        author=author,
        campaign=campaign,
        selection=ALL,
        answer=answer,
        new_until=timezone.now().replace(microsecond=0) + timedelta(days=1) if answer == "shorten" else None,
    )
    (plan,) = finish(campaign, author=author_named("bob"))
    rename_user(author=COMMAND, name="ada", new_name="eve")
    with pytest.raises(SecondPersonRequired, match="protected namespace sales"):
        apply_plan(plan, author=author_named("eve"))
    assert apply_plan(plan, author=author_named("bob")).state == "applied"
    assert recent_change_count({author_named("bob").user_id}) == 0


def test_who_lets_unanswered_items_end_does_not_apply_the_result():
    campaign = open_campaign(author=author_named("ada"), scope={"user": "dee"}, unanswered="revoke")
    (plan,) = finish(campaign, author=author_named("bob"))
    for name in ("ada", "bob"):
        with pytest.raises(SecondPersonRequired):
            apply_plan(plan, author=author_named(name))
    assert apply_plan(plan, author=author_named("cat")).state == "applied"


def test_who_started_and_finished_a_review_applies_what_others_answered():
    campaign = open_campaign(author=author_named("ada"), scope={"user": "dee"}, unanswered="revoke")
    answer(campaign, ALL, "revoke", by="bob")
    (plan,) = finish(campaign, author=author_named("ada"))
    assert apply_plan(plan, author=author_named("ada")).state == "applied"


def test_a_token_of_a_service_account_does_not_answer_about_its_creator():
    User.objects.filter(username="dee").update(role=Role.ADMINISTRATOR)
    campaign = open_campaign(scope={"namespace": "sales"})
    own, robot = item_of(campaign, "user:dee", "dataset:sales.orders"), author_named("robot", token_by="dee")
    with pytest.raises(ReviewError, match="about your own access"):
        answer_items(author=robot, campaign=campaign, selection=ItemSelection([own.pk]), answer="keep")
    assert answer_items(author=robot, campaign=campaign, selection=ALL, answer="keep").own == 2
    assert not ReviewItem.objects.filter(principal_name="dee").exclude(answer="").exists()


def test_a_person_does_not_answer_about_its_service_account():
    User.objects.filter(username="dee").update(role=Role.ADMINISTRATOR)
    add_grant("user:robot", "dataset:sales.orders", "READ")
    campaign = open_campaign(scope={"user": "robot"})
    selection = ItemSelection([item_of(campaign, "user:robot", "dataset:sales.orders").pk])
    author_named("robot", token_by="dee")
    with pytest.raises(ReviewError, match="about your own access"):
        answer(campaign, selection, "keep", by="dee")
    assert preview_answer(account=account("dee"), campaign=campaign, selection=selection).own == 1
    assert answer(campaign, selection, "keep", by="bob").count == 1


def test_a_deadline_at_the_end_of_the_calendar_does_not_stop_the_sweep():
    """The deadline of the following review would not exist, and the sweep of all reviews would fail."""
    now = timezone.now()
    for deadline in (now.replace(year=9999), now + timedelta(days=40_000)):
        with pytest.raises(ReviewError, match="days away") as refused:
            create_campaign(author=COMMAND, options=CampaignOptions("Review", deadline, recurrence="1"))
        assert refused.value.field == "deadline"
    campaign = open_campaign(deadline=now + timedelta(days=36_500), recurrence="12")
    type(campaign).objects.update(created_at=now - timedelta(days=400))
    assert [following.previous for following in sweep_campaigns().created] == [campaign]
