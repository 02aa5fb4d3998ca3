"""The items of a campaign: their evidence agrees with a plain computation, and the rules assign them to
reviewers.
"""

import random
from collections import defaultdict
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from entities.address import Address
from entities.models import Entity
from grants.change_set import Exclude, Leave, Revoke
from grants.models import Membership, User, UserGrant, privilege_of
from grants.models.reviews import CampaignState, ReviewItem, UsageDay
from grants.policies.principals import group_text, type_and_name
from grants.reviews.errors import ReviewError
from grants.reviews.reviewers import concern_condition, set_manager
from grants.validity import Validity
from tests.grants.reviews.support import item_of, new_campaign, open_campaign, prepare
from tests.support.authors import COMMAND, account
from tests.support.changes import add_grant, add_group, add_member, set_user_active
from tests.support.random_tenants import (
    TimedTenant,
    administrator_counts,
    changed_tenant,
    random_tenant,
    random_timed_tenant,
    store_tenant,
)

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


class Reference:
    """Compute the evidence of items with loops. now: the tenant without what is not in force."""

    def __init__(self, timed: TimedTenant):
        self.all, self.now, self.periods = timed.tenant, timed.at(timezone.now()), timed.periods
        self.active = {name for name, status in self.all.users.items() if status == (True, True)}
        rows = UsageDay.objects.values_list("user__username", "entity__kind", "entity__key", "day")
        self.usage = [(user, Address(kind, key), day) for user, kind, key, day in rows]
        self.admin_counts = administrator_counts(self.now)

    def last_used(self, users, addresses):
        return max(
            (day for user, used, day in self.usage if user in users and used in addresses), default=None
        )

    def members(self, group: str) -> list[str]:
        """Return the members at any time."""
        return self.all.own_members(group) + [
            user
            for inner in self.all.role_groups.get(group, ())
            for user in self.all.groups[inner]
            if self.periods[user, inner].within(self.periods[inner, group])
        ]

    def admins_left(self, change: Revoke | Leave | Exclude) -> int | None:
        """Return the smallest number of administrators that an entity has after it loses one, if it is too few."""
        after = administrator_counts(changed_tenant(self.now, [change]))
        return min(
            (n for address, n in after.items() if n < min(2, self.admin_counts[address])), default=None
        )

    def evidence(self, key: tuple) -> tuple:
        """Return the evidence of a grant or membership. key: as in the periods of the tenant."""
        if len(key) == 2:
            member, group = key
            is_group = member in self.all.role_groups.get(group, ())
            holders = [group_text(group), *(role for role, of in self.now.role_groups.items() if group in of)]
            inside = {address for principal, address, _ in self.all.grants if principal in holders}
            last_used = self.last_used(self.members(member) if is_group else [member], inside)
            peers = self.active.intersection(self.now.groups[member]) if is_group else set()
            direct = peers.intersection(self.now.own_members(group)) if is_group else ()
            admins_left = self.admins_left((Exclude if is_group else Leave)(*key))
            return "", admins_left, len(peers), len(direct), member if is_group else "", last_used
        principal, address, privilege = key
        kind, name = type_and_name(principal)
        admins_left = self.admins_left(Revoke(*key))
        if kind == "group":
            return "", admins_left, 0, 0, "", self.last_used(self.members(name), [address])
        groups = [group for group, members in self.now.groups.items() if name in members]
        through = [group for group in groups if (group_text(group), address, privilege) in self.now.grants]
        shares = []
        for group in groups:
            if peers := self.active.intersection(self.now.groups[group]) - {name}:
                holders = sum((f"user:{peer}", address, privilege) in self.now.grants for peer in peers)
                shares.append((-holders / len(peers), -len(peers), group, len(peers), holders))
        _, _, group, peer_count, holders = min(shares, default=(0, 0, "", 0, 0))
        last_used = self.last_used([name], [address])
        return min(through, default=""), admins_left, peer_count, holders, group, last_used


def store_usage(dice: random.Random) -> None:
    entities, today = list(Entity.objects.values_list("pk", flat=True)), timezone.now().date()
    UsageDay.objects.bulk_create(
        UsageDay(user_id=pk, entity_id=entity, day=today - dice.randint(0, 200) * DAY, count=1)
        for pk in User.objects.values_list("pk", flat=True)
        for entity in dice.sample(entities, len(entities) // 3)
    )


def key_of(item: ReviewItem) -> tuple:
    """Return the key of an item in the periods of the tenant."""
    if item.is_membership:
        return item.principal_name, type_and_name(item.target)[1]
    return item.principal, item.address, privilege_of(item.permission_id)


@pytest.mark.parametrize("seed", range(6))
def test_the_evidence_agrees_with_a_plain_computation(seed):
    timed = random_timed_tenant(seed, has_roles=True)
    store_tenant(timed.tenant, timed.periods)
    store_usage(random.Random(seed))
    campaign = open_campaign(rows_per_batch=7)
    reference, now = Reference(timed), timezone.now()
    items = {key_of(item): item for item in campaign.items.all()}
    evidence = {
        key: (
            item.redundant_through,
            item.admins_left,
            item.peers,
            item.peer_holders,
            item.peer_group,
            item.last_used_on,
        )
        for key, item in items.items()
    }
    assert evidence == {key: reference.evidence(key) for key in timed.periods}
    ended = {key for key, validity in timed.periods.items() if (validity.valid_until or now + DAY) <= now}
    assert {key for key, item in items.items() if item.is_ended} == ended != set()
    assert campaign.item_count == len(items) == sum(share.item_count for share in campaign.shares.all())


@pytest.mark.parametrize("seed", [1, 2, 5, 6, 7])
def test_a_role_counts_the_administrators_that_it_keeps_without_a_group(seed):
    tenant, dice, role = random_tenant(seed, has_roles=True), random.Random(seed), "role:role"
    groups, users = [name for name in tenant.groups if name != role][:2], sorted(tenant.users)[:3]
    tenant.users |= dict.fromkeys(users, (True, True))
    tenant.groups = {name: dice.sample(users, 2 - place) for place, name in enumerate(groups)} | {role: []}
    tenant.role_groups, tenant.role_users = {role: groups}, {role: dice.sample(users, dice.randint(0, 1))}
    tenant.grants = {(role, address, "ADMIN") for address in tenant.entities}
    tenant.grants |= {
        (f"user:{dice.choice(users)}", dice.choice([*tenant.entities]), "ADMIN") for _ in range(9)
    }
    tenant.expand_roles()
    store_tenant(tenant)
    items = {key_of(item): item.admins_left for item in open_campaign().items.filter(source="role-group")}
    reference = Reference(TimedTenant(tenant, defaultdict(Validity), []))
    assert items == {key: reference.admins_left(Exclude(*key)) for key in items}
    assert len(items) == len(groups) and set(items.values()) != {None}


@pytest.mark.parametrize("rule", ["manager", "group"])
def test_the_rules_assign_items_to_others_than_the_people_they_are_about(rule):
    dice = random.Random(1)
    store_tenant(random_tenant(1, has_roles=True))
    User.objects.update(is_active=True, is_principal=True)
    Membership.objects.update(valid_from=None, valid_until=None)
    users = list(User.objects.order_by("pk"))
    group = Group.objects.order_by("pk").first()
    Membership.objects.get_or_create(user=users[0], group=group)
    for each in users[1:]:
        set_manager(
            author=COMMAND, name=each.username, manager=dice.choice([u for u in users if u != each]).username
        )
    options = {"reviewer_group": group.name} if rule == "group" else {}
    campaign = open_campaign(reviewer_rule=rule, **options)
    members = set(group.user_set.values_list("pk", flat=True))
    assert campaign.items.exclude(reviewer=None).exists()
    for item in campaign.items.select_related("reviewer"):
        assert item.escalated == (item.reviewer is None)
        if item.reviewer is None:
            continue
        assert not campaign.items.filter(concern_condition(item.reviewer), pk=item.pk).exists()
        if rule == "group":
            assert item.reviewer_id in members
        else:
            assert item.reviewer.report_links.filter(user=item.principal_id).exists()


def test_an_item_shows_since_when_by_whom_and_why_access_exists(cast):
    add_group("stewards")
    add_member("dee", "stewards")
    add_grant("user:dee", "dataset:hr.salaries", "READ")
    campaign = open_campaign()
    item = item_of(campaign, "user:dee", "dataset:hr.salaries")
    grant = UserGrant.objects.get(pk=item.grant_id)
    assert (item.granted_at, item.granted_by, item.reason) == (grant.granted_at, "", "because")
    assert (item.namespace, item.entity_state) == ("hr", "live")
    member = item_of(campaign, "user:dee", "group:stewards")
    assert (member.granted_by, member.reason, member.reach) == (
        "a command",
        "because",
        0,
    ) and member.granted_at is not None
    assert campaign.base_revision > 0 and campaign.is_open


def test_a_scope_selects_by_all_its_conditions(cast):
    def reviewed_access(**scope) -> set[str]:
        return {f"{item.principal} {item.target}" for item in open_campaign(scope=scope).items.all()}

    assert reviewed_access(user="dee") == {"user:dee dataset:sales.orders", "user:dee dataset:sales.legacy"}
    assert reviewed_access(group="operators") == {
        "user:grp group:operators",
        "group:operators program:sales.shop.workflow.daily",
        "group:operators dataset:sales.forecast",
    }
    assert reviewed_access(namespace="sales", kinds=["dataset"], privileges=["ADMIN"]) == {
        "user:ned dataset:sales.orders",
        "user:ned dataset:sales.customers",
    }
    assert reviewed_access(sources=["membership"]) == {"user:grp group:operators"}
    assert reviewed_access(sources=["group"]) == reviewed_access(group="operators") - {
        "user:grp group:operators"
    }


def test_an_unused_scope_selects_old_grants_without_a_recent_use(cast):
    UserGrant.objects.update(granted_at=timezone.now() - 100 * DAY)
    orders, today = Entity.objects.get(key="sales.orders"), timezone.now().date()
    UsageDay.objects.create(user=cast["dee"], entity=orders, day=today - 89 * DAY, count=3)
    UsageDay.objects.create(user=cast["ina"], entity=orders, day=today - 91 * DAY, count=3)
    campaign = open_campaign(scope={"sources": ["user"], "unused_days": 90, "kinds": ["dataset"]})
    items = {(item.principal, item.target): item.last_used_on for item in campaign.items.all()}
    assert ("user:dee", "dataset:sales.orders") not in items
    assert items["user:ina", "dataset:sales.orders"] == today - 91 * DAY
    UserGrant.objects.filter(user=cast["ina"]).update(granted_at=timezone.now() - 10 * DAY)
    again = open_campaign(scope={"sources": ["user"], "unused_days": 90, "kinds": ["dataset"]})
    assert not again.items.filter(principal_name="ina").exists()


def test_items_without_a_reviewer_go_to_the_escalation_group(cast):
    campaign = open_campaign(
        reviewer_rule="manager", escalation_group="operators", scope={"sources": ["user"]}
    )
    assert set(campaign.items.values_list("reviewer__username", "escalated")) == {("grp", True)}
    # operators hold these grants themselves, so administrators review them
    other = open_campaign(reviewer_rule="manager", escalation_group="operators", scope={"sources": ["group"]})
    assert set(other.items.values_list("reviewer", "escalated")) == {(None, True)}


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"title": " "}, "title"),
        ({"scope": {"namespace": "none"}}, "namespace"),
        ({"scope": {"user": "none"}}, "user"),
        ({"scope": {"group": "none"}}, "group"),
        ({"scope": {"kinds": ["table"]}}, "kinds"),
        ({"scope": {"size": 1}}, "scope"),
        ({"scope": {"sources": ["membership"], "namespace": "sales"}}, "sources"),
        ({"scope": {"unused_days": -1}}, "unused_days"),
        ({"reviewer_rule": "group"}, "reviewer_group"),
        ({"reviewer_group": "operators"}, "reviewer_group"),
        ({"reviewer_rule": "group", "reviewer_group": "none"}, "reviewer_group"),
        ({"escalation_group": "none"}, "escalation_group"),
        ({"reviewer_rule": "lottery"}, "reviewer_rule"),
        ({"reminder_days": -1}, "reminder_days"),
        ({"deadline": timezone.now() - DAY}, "deadline"),
        ({"deadline": (timezone.now() + DAY).replace(tzinfo=None)}, "deadline"),
    ],
)
def test_invalid_options_are_refused(cast, options, field):
    with pytest.raises(ReviewError) as raised:
        open_campaign(**options)
    assert raised.value.field == field


def test_a_scope_without_items_fails_with_a_message(cast):
    campaign = open_campaign(scope={"user": "out"})
    assert campaign.state == CampaignState.FAILED and "no grants" in campaign.error
    assert not ReviewItem.objects.exists()


def test_a_preparation_that_was_killed_starts_from_its_beginning(cast):
    count = open_campaign().item_count
    campaign = new_campaign()
    ReviewItem.objects.create(campaign=campaign, source="user", grant_id=1, principal_id=1)
    assert prepare(campaign, rows_per_batch=3).item_count == campaign.items.count() == count


def test_inactive_members_cannot_review(cast):
    set_user_active("grp", active=False)
    with pytest.raises(ReviewError, match="no active members"):
        open_campaign(reviewer_rule="group", reviewer_group="operators")
    assert account("grp").is_active is False


def test_a_review_of_unused_access_does_not_revoke_open_items_while_no_use_is_recorded(cast):
    scope = {"unused_days": 90}
    with pytest.raises(ReviewError, match="no use is recorded"):
        open_campaign(scope=scope, unanswered="revoke")
    assert open_campaign(scope=scope, unanswered="list").pk
    orders = Entity.objects.get(key="sales.orders")
    UsageDay.objects.create(user=cast["dee"], entity=orders, day=timezone.now().date(), count=3)
    assert open_campaign(scope=scope, unanswered="revoke").pk
