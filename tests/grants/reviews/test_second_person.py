"""With FOUR_EYES, one person cannot use a review to end access if two people are needed, and no account
reviews its own access."""

from datetime import timedelta

import pytest
from django.utils import timezone

from authzconsole.common.tokens import create_token
from grants.authority.four_eyes import recent_change_count
from grants.errors import SecondPersonRequired
from grants.journal import Author
from grants.models import Role, User
from grants.models.reviews import ReviewItem
from grants.principals.renaming import rename_user
from grants.reviews.answers import ItemSelection, answer_items, preview_answer
from grants.reviews.campaigns import CampaignOptions, create_campaign
from grants.reviews.errors import ReviewError
from grants.reviews.finishing import close_campaign, create_result_plans, request_finish
from grants.reviews.selection import ItemFilter
from grants.reviews.sweep import sweep_campaigns
from tests.grants.reviews.support import item_of, open_campaign
from tests.support.authors import COMMAND
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_grant, add_user, apply_plan

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


def by(name: str, *, token_by: str = "") -> Author:
    user = User.objects.get(username=name)
    if not token_by:
        return Author(name, reason="close", user_id=user.pk)
    token = create_token(author=by(token_by), owner=name, name="t", scopes=["administer"], days=1).token
    return Author(name, reason="close", user_id=user.pk, token=token.pk, issuer=token.issued_by)


def plan_of(campaign, *, finished_by: Author = COMMAND):
    request_finish(author=finished_by, number=campaign.pk)
    claimed = type(campaign).objects.get(pk=campaign.pk)
    (plan,) = create_result_plans(claimed)
    close_campaign(claimed)
    return plan


@pytest.mark.parametrize("answer", ["revoke", "shorten"])
@pytest.mark.parametrize("reviewer", ["ada", "robot"])
def test_who_answered_does_not_apply_the_result(answer, reviewer):
    campaign = open_campaign(scope={"user": "dee"})
    author = by(reviewer, token_by="ada" if reviewer == "robot" else "")
    answer_items(
        author=author,
        campaign=campaign,
        selection=ALL,
        answer=answer,
        new_until=timezone.now().replace(microsecond=0) + timedelta(days=1) if answer == "shorten" else None,
    )
    plan = plan_of(campaign, finished_by=by("bob"))
    rename_user(author=COMMAND, name="ada", new_name="eve")
    with pytest.raises(SecondPersonRequired, match="protected namespace sales"):
        apply_plan(plan, author=by("eve"))
    assert apply_plan(plan, author=by("bob")).state == "applied"
    assert recent_change_count({by("bob").user_id}) == 0


def test_who_lets_unanswered_items_end_does_not_apply_the_result():
    campaign = open_campaign(author=by("ada"), scope={"user": "dee"}, unanswered="revoke")
    plan = plan_of(campaign, finished_by=by("bob"))
    for name in ("ada", "bob"):
        with pytest.raises(SecondPersonRequired):
            apply_plan(plan, author=by(name))
    assert apply_plan(plan, author=by("cat")).state == "applied"


def test_who_started_and_finished_a_review_applies_what_others_answered():
    campaign = open_campaign(author=by("ada"), scope={"user": "dee"}, unanswered="revoke")
    answer_items(author=by("bob"), campaign=campaign, selection=ALL, answer="revoke")
    plan = plan_of(campaign, finished_by=by("ada"))
    assert apply_plan(plan, author=by("ada")).state == "applied"


def test_a_token_of_a_service_account_does_not_answer_about_its_creator():
    User.objects.filter(username="dee").update(role=Role.ADMINISTRATOR)
    campaign = open_campaign(scope={"namespace": "sales"})
    own, robot = item_of(campaign, "user:dee", "dataset:sales.orders"), by("robot", token_by="dee")
    with pytest.raises(ReviewError, match="about your own access"):
        answer_items(author=robot, campaign=campaign, selection=ItemSelection([own.pk]), answer="keep")
    assert answer_items(author=robot, campaign=campaign, selection=ALL, answer="keep").own == 2
    assert not ReviewItem.objects.filter(principal_name="dee").exclude(answer="").exists()


def test_a_person_does_not_answer_about_its_service_account():
    User.objects.filter(username="dee").update(role=Role.ADMINISTRATOR)
    add_grant("user:robot", "dataset:sales.orders", "READ")
    campaign = open_campaign(scope={"user": "robot"})
    selection = ItemSelection([item_of(campaign, "user:robot", "dataset:sales.orders").pk])
    by("robot", token_by="dee")
    with pytest.raises(ReviewError, match="about your own access"):
        answer_items(author=by("dee"), campaign=campaign, selection=selection, answer="keep")
    assert (
        preview_answer(account=User.objects.get(username="dee"), campaign=campaign, selection=selection).own
        == 1
    )
    assert answer_items(author=by("bob"), campaign=campaign, selection=selection, answer="keep").count == 1


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
