"""Attacks with the name of a person who left: a later account of this name gets nothing of the former one."""

import pytest

from entities.address import parse_address
from grants.authority.stewards import stewarded_namespaces
from grants.change_set import ChangeSet, SetException
from grants.changes import apply
from grants.models import AccessRequest, GuardrailException, NamespaceSteward, RequestState, User
from grants.models.reviews import ReviewerRule, ReviewItem, ReviewShare, UserManagerLink
from grants.plans.sources.off_boarding import OffBoarding, off_boarding_plan
from grants.principals.services import add_user
from grants.requests.approvers import own_requests, requests_to_decide
from grants.reviews.reviewers import set_manager
from grants.reviews.selection import visible_campaigns
from grants.stewards import add_steward
from tests.grants.requests.test_requests import request_access
from tests.grants.reviews.support import answer, check_shares, open_campaign
from tests.rest.conftest import Rest
from tests.scim.conftest import Scim
from tests.support.authors import COMMAND, account, author_named
from tests.support.changes import apply_plan, bearer, issue_token, set_user_active
from tests.support.guardrails import FORBID, add_guardrail
from tests.support.pages import post_as_shown
from tests.web.conftest import Browser

pytestmark = pytest.mark.django_db
NAMESPACE = parse_address("namespace:sales")


@pytest.fixture
def idp(settings):
    settings.SCIM_ENABLED = True
    add_user(author=COMMAND, name="idp", is_service=True, is_principal=False)
    return Scim(headers={"Authorization": f"Bearer {issue_token('idp', 'provision').secret}"})


@pytest.fixture
def campaign(cast, idp):
    """out is a steward, manages dee, reports to ned, reviews an item of dee, has two requests, and an exception."""
    add_guardrail("no-writers", FORBID)
    exception = SetException("no-writers", "user:out", owner="ada", valid_until="2100-01-01T00:00:00Z")
    apply(ChangeSet.of(exception), author=author_named("ada"))
    add_steward(author=COMMAND, namespace=NAMESPACE, principal="user:out")
    set_manager(author=COMMAND, name="dee", manager="out")
    set_manager(author=COMMAND, name="out", manager="ned")
    campaign = open_campaign(reviewer_rule=ReviewerRule.MANAGER)
    own = list(campaign.items.filter(reviewer=cast["out"]))
    assert len(own) == 2
    answer(campaign, own[:1], "keep", by="out")
    request_access("out")
    request_access("dee", ("write", "dataset:sales.orders"))
    assert requests_to_decide(cast["out"]).count() == 1
    return campaign


def by_scim(idp):
    user = account("out")
    assert idp.client.delete(f"/scim/v2/Users/{user.pk}", headers=idp.headers).status_code == 204
    created = idp.create_user("out")
    assert created.status_code == 201, created.content


def by_page(idp):
    browser = Browser()
    browser.force_login(account("ada"))
    assert post_as_shown(browser, "/people/remove/user:out", {"reason": "left"}).status_code == 303
    add_user(author=COMMAND, name="out")


def by_rest(idp):
    rest = Rest(headers=bearer("ada", "read", "administer"))
    answered = rest.delete("/users/out")
    assert answered.status_code == 200, answered.content
    add_user(author=COMMAND, name="out")


def by_off_boarding(idp):
    apply_plan(off_boarding_plan.create(author=COMMAND, choices=OffBoarding("out")))
    set_user_active("out", active=True)


@pytest.mark.parametrize("leave_and_return", [by_scim, by_page, by_rest, by_off_boarding])
def test_the_attack_a_later_account_of_the_same_name_gets_what_the_former_one_decided(
    leave_and_return, campaign, idp
):
    leave_and_return(idp)
    heir = User.objects.get(username="out")
    assert not stewarded_namespaces(heir) and not NamespaceSteward.objects.exists()
    assert not requests_to_decide(heir).exists()
    assert not UserManagerLink.objects.exists() and not GuardrailException.objects.exists()
    assert not ReviewItem.objects.filter(reviewer=heir).exists()
    assert not ReviewShare.objects.filter(reviewer=heir, item_count__gt=0).exists()
    assert not visible_campaigns(heir).exists()
    check_shares(campaign)
    request = AccessRequest.objects.get(subject_name="out")
    assert request.state == RequestState.CANCELLED
    assert AccessRequest.objects.get(subject_name="dee").is_pending
    if leave_and_return is not by_off_boarding:
        assert not own_requests(heir).exists()


def test_a_user_who_left_before_this_version_brings_nothing_back_over_scim(cast, idp):
    """An administrator may also have appointed the account while it was removed."""
    user = cast["out"]
    assert idp.client.delete(f"/scim/v2/Users/{user.pk}", headers=idp.headers).status_code == 204
    add_steward(author=COMMAND, namespace=NAMESPACE, principal="user:out")
    User.objects.filter(pk=user.pk).update(first_name="Olga", last_name="Udd")
    assert idp.create_user("out").status_code == 201
    heir = User.objects.get(pk=user.pk)
    assert not NamespaceSteward.objects.exists() and heir.get_full_name() == ""
