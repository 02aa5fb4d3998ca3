"""Holders of ADMIN review the entity, and with delegation what is inside: nearest first, and never their own
access.
"""

import pytest

from entities.address import parse_address
from entities.models import Entity, State
from entities.vocabulary import Privilege
from grants.authority.delegation import is_delegate
from grants.models import Membership, User, UserGrant
from grants.models.reviews import Campaign, ItemSource
from grants.reviews.items_sql import MAX_CANDIDATES
from grants.reviews.reviewers import concern_condition
from grants.roles.capabilities import DELEGATE_ROLES, Role
from tests.grants.reviews.support import item_of, open_campaign
from tests.grants.reviews.test_preparation import Reference, store_random_tenant
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_group, add_member, add_user, change_grants

pytestmark = pytest.mark.django_db
ORDERS, SHOP, DAILY = "dataset:sales.orders", "application:sales.shop", "program:sales.shop.workflow.daily"


class ReviewerReference(Reference):
    """Find the reviewers of grants under the rule of ADMIN holders, with loops."""

    def __init__(self, *, delegation: bool):
        super().__init__()
        self.delegation = delegation
        self.people = set(User.objects.filter(is_service=False).values_list("pk", flat=True)) & self.active
        self.delegates = (
            set(User.objects.filter(role__in=DELEGATE_ROLES).values_list("pk", flat=True)) & self.people
        )
        self.every_member = set(Membership.objects.values_list("group_id", "user_id"))
        self.entities = Entity.objects.in_bulk()
        self.keys = {entity.address: pk for pk, entity in self.entities.items()}

    def candidates(self, entity: int, people: set[int]) -> list[int]:
        on_entity = (entity, self.admin)
        direct = {
            row.user_id for row in self.user_grants if (row.content_object_id, row.permission_id) == on_entity
        } & people
        through = set()
        for row in self.group_grants:
            if (row.content_object_id, row.permission_id) == on_entity:
                through.update(sorted(self.members(row.group_id) & people)[:MAX_CANDIDATES])
        return [*sorted(direct), *sorted(through - direct)][:MAX_CANDIDATES]

    def reviewer(self, source: ItemSource, principal: int, entity: int) -> tuple[int | None, int]:
        """Return the reviewer, and how many containers above the entity their grant is."""
        address = self.entities[entity].address
        places = [(entity, self.people)]
        if self.delegation:
            containers = [self.keys[container] for container in reversed(address.ancestors)]
            places += [
                (container, self.delegates)
                for container in containers
                if self.states[container] == State.LIVE
            ]
        for distance, (place, people) in enumerate(places):
            for user in self.candidates(place, people):
                if (
                    user != principal
                    if source == ItemSource.USER
                    else (principal, user) not in self.every_member
                ):
                    return user, distance
        return None, 0


@pytest.mark.parametrize(("seed", "delegation"), [(1, True), (2, True), (4, True), (2, False)])
def test_the_reviewers_agree_with_a_plain_computation(settings, seed, delegation):
    settings.DELEGATION = delegation
    dice = store_random_tenant(seed)
    for user in User.objects.all():
        user.is_service, user.role = (
            dice.random() < 0.2,
            dice.choice([Role.ORDINARY, Role.ORDINARY, Role.AUDITOR]),
        )
        user.save(update_fields=["is_service", "role"])
    UserGrant.objects.filter(
        pk__in=[pk for pk in UserGrant.objects.values_list("pk", flat=True) if dice.random() < 0.5]
    ).delete()
    # some random tenants have no person who could hold ADMIN on a container
    add_user("owner")
    grant_admin("user:owner", "instance:cdap")
    campaign = open_campaign(
        reviewer_rule="admin-holders", rows_per_batch=9, scope={"sources": ["user", "group"]}
    )
    reference = ReviewerReference(delegation=delegation)
    expected = {
        item.pk: reference.reviewer(ItemSource(item.source), item.principal_id, item.entity_id)
        for item in campaign.items.all()
    }
    assert dict(campaign.items.values_list("pk", "reviewer")) == {
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
