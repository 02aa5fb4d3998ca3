"""The items of a campaign: their evidence agrees with a plain computation, and the rules assign them to
reviewers.
"""

import random
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from entities.models import Entity, State
from entities.vocabulary import Privilege
from grants.models import GroupGrant, Membership, User, UserGrant, permission_ids
from grants.models.reviews import CampaignState, ItemSource, ReviewItem, UsageDay
from grants.reviews.errors import ReviewError
from grants.reviews.reviewers import concern_condition, set_manager
from tests.grants.reviews.support import item_of, new_campaign, open_campaign, prepare
from tests.support.authors import COMMAND, account
from tests.support.changes import add_grant, add_group, add_member, set_user_active
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def store_random_tenant(seed: int) -> random.Random:
    """Store a tenant in which some grants and memberships have ended or have not begun, and some entities
    were used.
    """
    dice = random.Random(seed)
    store_tenant(random_tenant(seed))
    now = timezone.now().replace(microsecond=0)
    for model in (UserGrant, GroupGrant, Membership):
        for row in model.objects.all():
            if dice.random() < 0.3:
                row.valid_from, row.valid_until = dice.choice(
                    [(None, now - DAY), (now + DAY, None), (now - DAY, now + DAY)]
                )
                row.save(update_fields=["valid_from", "valid_until"])
    entities = list(Entity.objects.values_list("pk", flat=True))
    UsageDay.objects.bulk_create(
        UsageDay(user_id=pk, entity_id=entity, day=(now - dice.randint(0, 200) * DAY).date(), count=1)
        for pk in User.objects.values_list("pk", flat=True)
        for entity in dice.sample(entities, len(entities) // 3)
    )
    return dice


class Reference:
    """Compute the evidence of items from all rows, with loops."""

    def __init__(self):
        now = timezone.now()
        self.active = set(User.objects.active_principals().values_list("pk", flat=True))
        counting = [
            [
                row
                for row in model.objects.all()
                if (row.valid_from or now) <= now and (row.valid_until or now + DAY) > now
            ]
            for model in (UserGrant, GroupGrant, Membership)
        ]
        self.user_grants, self.group_grants, self.memberships = counting
        self.states = dict(Entity.objects.values_list("pk", "state"))
        self.names = dict(Group.objects.values_list("pk", "name"))
        self.usage = list(UsageDay.objects.values_list("user_id", "entity_id", "day"))
        self.admin = permission_ids()[Privilege.ADMIN]

    def members(self, group: int) -> set[int]:
        return {row.user_id for row in self.memberships if row.group_id == group} & self.active

    def administrators(self, entity: int, without=None) -> set[int]:
        """Return the active administrators of an entity. without: a row that does not count."""
        direct = {
            row.user_id
            for row in self.user_grants
            if (row.content_object_id, row.permission_id) == (entity, self.admin) and row != without
        } & self.active
        groups = {
            row.group_id
            for row in self.group_grants
            if (row.content_object_id, row.permission_id) == (entity, self.admin) and row != without
        }
        return direct.union(
            *(
                {row.user_id for row in self.memberships if row.group_id == group and row != without}
                & self.active
                for group in groups
            )
        )

    def admins_left(self, row, entities) -> int | None:
        lost = []
        for entity in entities:
            if self.states[entity] == State.LIVE:
                before, after = self.administrators(entity), self.administrators(entity, without=row)
                lost += [len(after)] if len(after) < 2 and after < before else []
        return min(lost, default=None)

    def of_user_grant(self, row: UserGrant) -> tuple:
        same = (row.content_object_id, row.permission_id)
        groups = [m.group_id for m in self.memberships if m.user_id == row.user_id]
        through = [
            g.group_id
            for g in self.group_grants
            if g.group_id in groups and (g.content_object_id, g.permission_id) == same
        ]
        shares = []
        for group in groups:
            if peers := self.members(group) - {row.user_id}:
                holders = {
                    g.user_id for g in self.user_grants if (g.content_object_id, g.permission_id) == same
                } & peers
                shares.append((-len(holders) / len(peers), -len(peers), group, len(peers), len(holders)))
        best = min(shares, default=(0, 0, 0, 0, 0))
        is_admin = row.permission_id == self.admin
        days = [
            day
            for user_, entity, day in self.usage
            if (user_, entity) == (row.user_id, row.content_object_id)
        ]
        return (
            self.names.get(min(through, default=0), ""),
            self.admins_left(row, [row.content_object_id]) if is_admin else None,
            best[3],
            best[4],
            self.names.get(best[2], ""),
            max(days, default=None),
        )

    def of_group_grant(self, row: GroupGrant) -> tuple:
        is_admin = row.permission_id == self.admin
        members = {m.user_id for m in Membership.objects.filter(group=row.group_id)}
        days = [
            day for user_, entity, day in self.usage if user_ in members and entity == row.content_object_id
        ]
        return (
            "",
            self.admins_left(row, [row.content_object_id]) if is_admin else None,
            0,
            0,
            "",
            max(days, default=None),
        )

    def of_membership(self, row: Membership) -> tuple:
        grants = list(GroupGrant.objects.filter(group=row.group_id))
        decided = {
            g.content_object_id
            for g in self.group_grants
            if g.group_id == row.group_id and g.permission_id == self.admin
        }
        entities = {g.content_object_id for g in grants}
        days = [day for user_, entity, day in self.usage if user_ == row.user_id and entity in entities]
        return ("", self.admins_left(row, decided), 0, 0, "", max(days, default=None))


@pytest.mark.parametrize("seed", range(3))
def test_the_evidence_agrees_with_a_plain_computation(seed):
    store_random_tenant(seed)
    campaign = open_campaign(rows_per_batch=7)
    reference, now = Reference(), timezone.now()
    computations = {
        ItemSource.USER: (UserGrant, reference.of_user_grant),
        ItemSource.GROUP: (GroupGrant, reference.of_group_grant),
        ItemSource.MEMBERSHIP: (Membership, reference.of_membership),
    }
    expected = {
        (source.value, row.pk): compute(row)
        for source, (model, compute) in computations.items()
        for row in model.objects.all()
    }
    has_ended = {
        (source.value, row.pk)
        for source, (model, _) in computations.items()
        for row in model.objects.filter(valid_until__lte=now)
    }
    actual = {
        (item.source, item.grant_id): (
            item.redundant_through,
            item.admins_left,
            item.peers,
            item.peer_holders,
            item.peer_group,
            item.last_used_on,
        )
        for item in campaign.items.all()
    }
    assert actual == expected
    assert (
        {(item.source, item.grant_id) for item in campaign.items.filter(is_ended=True)} == has_ended != set()
    )
    assert campaign.item_count == len(expected) == sum(share.item_count for share in campaign.shares.all())


@pytest.mark.parametrize("rule", ["manager", "group"])
def test_the_rules_assign_items_to_others_than_the_people_they_are_about(rule):
    dice = store_random_tenant(1)
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
