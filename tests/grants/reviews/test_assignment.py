"""Holders of ADMIN review the entity, and with delegation what is inside: nearest first, and never their own
access.
"""

import random
from collections import Counter
from datetime import timedelta

import pytest
from django.utils import timezone

from entities.address import instance_address, parse_address
from entities.models import Entity, State
from entities.vocabulary import Privilege
from grants.authority.delegation import is_delegate
from grants.models import Membership, User
from grants.models.reviews import Campaign
from grants.policies.principals import group_text, is_group_text, type_and_name
from grants.reviews.campaigns import CampaignOptions
from grants.reviews.items_sql import MAX_CANDIDATES
from grants.reviews.preparation import preview_review
from grants.reviews.reviewers import concern_condition, set_manager
from grants.roles.capabilities import DELEGATE_ROLES, Role
from grants.stewards import add_steward
from grants.validity import Validity
from tests.grants.reviews.support import item_of, open_campaign
from tests.support.authors import COMMAND
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_group, add_member, change_grants
from tests.support.random_tenants import TimedTenant, random_timed_tenant, store_tenant

pytestmark = pytest.mark.django_db
ORDERS, SHOP, DAILY = "dataset:sales.orders", "application:sales.shop", "program:sales.shop.workflow.daily"


class Reference:
    """Find the reviewers of grants under the rule of ADMIN holders, with loops."""

    def __init__(self, timed: TimedTenant, *, delegation: bool):
        self.all, self.now, self.delegation = timed.tenant, timed.at(timezone.now()), delegation
        people = User.objects.filter(is_service=False, is_active=True, is_principal=True).order_by("pk")
        self.people = list(people.values_list("username", flat=True))
        delegates = people.filter(role__in=DELEGATE_ROLES)
        self.delegates = list(delegates.values_list("username", flat=True))

    def candidates(self, address, people: list[str]) -> list[str]:
        def holds_admin(principal):
            return (principal, address, Privilege.ADMIN) in self.now.grants

        direct = [user for user in people if holds_admin(f"user:{user}")]
        through = set()
        for group, members in self.now.groups.items():
            if holds_admin(group_text(group)):
                through.update([user for user in people if user in members][:MAX_CANDIDATES])
        return [*direct, *(user for user in people if user in through.difference(direct))][:MAX_CANDIDATES]

    def reviewer(self, principal: str, address) -> tuple[str | None, int]:
        """Return the reviewer, and how many containers above the entity their grant is."""
        kind, name = type_and_name(principal)
        places = [(address, self.people)]
        if self.delegation:
            places += [
                (container, self.delegates)
                for container in reversed(address.ancestors)
                if self.all.entities[container] == State.LIVE
            ]
        for distance, (place, people) in enumerate(places):
            for user in self.candidates(place, people):
                if user != name if kind == "user" else user not in self.all.groups[name]:
                    return user, distance
        return None, 0


@pytest.mark.parametrize(("seed", "delegation"), [(1, True), (2, True), (4, True), (2, False)])
def test_the_reviewers_agree_with_a_plain_computation(settings, seed, delegation):
    settings.DELEGATION = delegation
    timed, dice = random_timed_tenant(seed), random.Random(seed)
    tenant = timed.tenant
    # half of the grants to users, and a person who holds ADMIN on a container in every random tenant
    tenant.grants = {
        grant for grant in sorted(tenant.grants, key=str) if dice.random() < 0.5 or is_group_text(grant[0])
    }
    tenant.users["owner"] = (True, True)
    owned = ("user:owner", instance_address(), Privilege.ADMIN)
    tenant.grants.add(owned)
    timed.periods[owned] = Validity()
    store_tenant(tenant, timed.periods)
    for user in User.objects.exclude(username="owner"):
        user.is_service, user.role = (
            dice.random() < 0.2,
            dice.choice([Role.ORDINARY, Role.ORDINARY, Role.AUDITOR]),
        )
        user.save(update_fields=["is_service", "role"])
    campaign = open_campaign(
        reviewer_rule="admin-holders", rows_per_batch=9, scope={"sources": ["user", "group"]}
    )
    reference = Reference(timed, delegation=delegation)
    expected = {item.pk: reference.reviewer(item.principal, item.address) for item in campaign.items.all()}
    assert dict(campaign.items.values_list("pk", "reviewer__username")) == {
        pk: user for pk, (user, _) in expected.items()
    }
    assert set(campaign.items.filter(escalated=True)) == set(campaign.items.filter(reviewer=None))
    distances = {distance for user, distance in expected.values() if user}
    assert bool(distances - {0}) == delegation


@pytest.fixture
def cast(settings):
    settings.DELEGATION = True
    return create_sample_tenant()


def review(**options) -> Campaign:
    return open_campaign(reviewer_rule="admin-holders", **options)


def grant_admin(principal: str, *addresses: str) -> None:
    change_grants(grant=[(principal, address, "ADMIN") for address in addresses])


def revoke_admin(principal: str, *addresses: str) -> None:
    change_grants(revoke=[(principal, address, "ADMIN") for address in addresses])


def test_the_nearest_container_with_another_holder_reviews(cast):
    revoke_admin("user:ned", ORDERS, SHOP, DAILY)
    assert item_of(review(), "user:dee", ORDERS).reviewer == cast["ned"]
    assert item_of(review(), "group:operators", DAILY).reviewer == cast["ned"]
    grant_admin("user:dee", SHOP, "instance:cdap")
    campaign = review()
    assert item_of(campaign, "group:operators", DAILY).reviewer == cast["dee"]
    # dee's own access goes to ned, and ned's to dee, who is the only other holder above the namespace
    assert item_of(campaign, "user:dee", SHOP).reviewer == cast["ned"]
    assert item_of(campaign, "user:ned", "namespace:sales").reviewer == cast["dee"]
    assert item_of(campaign, "user:dee", "instance:cdap").reviewer is None
    for item in campaign.items.exclude(reviewer=None).exclude(source="membership").select_related("reviewer"):
        assert not campaign.items.filter(concern_condition(item.reviewer), pk=item.pk).exists()
        assert is_delegate(item.reviewer, parse_address(item.target))


def test_only_delegates_review_what_is_inside(cast, settings):
    revoke_admin("user:ned", ORDERS)
    User.objects.filter(username="ned").update(role=Role.AUDITOR)
    assert item_of(review(), "user:dee", ORDERS).reviewer is None
    User.objects.filter(username="ned").update(role=Role.ORDINARY)
    settings.DELEGATION = False
    assert item_of(review(), "user:dee", ORDERS).reviewer is None
    settings.DELEGATION = True
    Entity.objects.filter(kind="namespace", key="sales").update(state=State.DELETED)
    assert item_of(review(), "user:dee", ORDERS).reviewer is None


def test_members_of_a_group_review_after_its_services(cast):
    revoke_admin("user:ned", ORDERS, "namespace:sales")
    add_group("owners")
    for name in ("ned", "dee", "out"):
        add_member(name, "owners")
    grant_admin("group:owners", ORDERS)
    User.objects.filter(username="ned").update(is_service=True)
    assert item_of(review(), "user:dee", ORDERS, Privilege.READ).reviewer == cast["out"]


def add_stewards(**namespaces: str) -> None:
    for namespace, principals in namespaces.items():
        for principal in principals.split():
            add_steward(
                author=COMMAND, namespace=parse_address(f"namespace:{namespace}"), principal=principal
            )


def test_stewards_review_their_namespace_in_turn_and_never_their_own_access(cast):
    add_stewards(sales="user:dee group:operators", hr="user:ned")
    change_grants(
        grant=[("user:ned", "dataset:hr.salaries", "READ"), ("user:dee", str(instance_address()), "READ")]
    )
    campaign = open_campaign(reviewer_rule="stewards")
    stewards = {"sales": {"dee", "grp"}, "hr": {"ned"}}
    assigned = set()
    for item in campaign.items.select_related("reviewer"):
        if item.reviewer is None:
            assert item.escalated
            others = stewards.get(item.namespace, set()) - {item.principal_name}
            if item.principal == "group:operators":
                others.discard("grp")
            assert not others, f"{item} has stewards that are not concerned"
            continue
        assert not item.escalated and item.reviewer.username in stewards[item.namespace]
        assert not campaign.items.filter(concern_condition(item.reviewer), pk=item.pk).exists()
        assigned.add(item.reviewer.username)
    assert assigned == {"dee", "grp"}
    own = item_of(campaign, "user:ned", "dataset:hr.salaries")
    assert own.reviewer is None, "the only steward holds the grant"
    assert item_of(campaign, "user:grp", "group:operators").reviewer is None, "memberships have no namespace"
    assert item_of(campaign, "user:dee", str(instance_address())).reviewer is None


def test_an_inactive_steward_a_service_account_and_an_ended_member_review_nothing(cast):
    add_stewards(sales="user:ina user:out group:operators")
    User.objects.filter(username="out").update(is_service=True)
    Membership.objects.filter(user=cast["grp"]).update(valid_until=timezone.now() - timedelta(days=1))
    campaign = open_campaign(reviewer_rule="stewards")
    assert set(campaign.items.values_list("reviewer", "escalated")) == {(None, True)}


@pytest.mark.parametrize("rule", ["administrators", "admin-holders", "stewards", "manager", "group"])
def test_the_preview_names_the_reviewers_that_the_review_has(cast, rule):
    add_stewards(sales="user:dee group:operators")
    set_manager(author=COMMAND, name="dee", manager="ned")
    options = {"reviewer_rule": rule, "escalation_group": "operators"}
    if rule == "group":
        options["reviewer_group"] = "operators"
    campaign = open_campaign(**options)
    expected = Counter(name or "" for name in campaign.items.values_list("reviewer__username", flat=True))
    preview = preview_review(CampaignOptions("", timezone.now(), **options))
    assert preview.items == campaign.item_count and dict(preview.reviewers) == expected
    counts = [count for _, count in preview.reviewers]
    assert counts == sorted(counts, reverse=True)


def test_a_large_review_is_not_assigned_before_it_starts(cast, monkeypatch):
    monkeypatch.setattr("grants.reviews.preparation.MAX_PREVIEWED_ITEMS", 3)
    preview = preview_review(CampaignOptions("", timezone.now(), reviewer_rule="stewards"))
    assert (preview.items, preview.reviewers) == (4, None)
