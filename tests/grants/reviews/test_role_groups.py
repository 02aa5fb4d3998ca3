"""The membership of a group in a role is reviewed like that of a user in a group."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.utils import timezone

from entities.models import Entity
from grants.change_set import AddGroup, ChangeSet, Exclude, Include
from grants.changes import apply
from grants.models import Belonging, GroupGrant, Membership, RoleGroup, RoleMembership, User, UserGrant
from grants.models.reviews import Campaign, ItemSource, Removal, ReviewItem, UsageDay
from grants.reviews.errors import ReviewError
from grants.reviews.evidence_lines import evidence_lines
from grants.reviews.item_levels import item_levels
from grants.reviews.items_sql import insert_items_sql, preparation_rules
from grants.reviews.removals import mark_removed_items
from grants.reviews.scope import parse_scope
from grants.reviews.selection import ItemFilter, matching_items
from grants.role_members import write_role_memberships
from tests.grants.reviews.support import answer, finish, item_of, new_campaign, open_campaign
from tests.support.authors import COMMAND, account
from tests.support.changes import add_grant, add_member, apply_plan, create_inverse

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def role(cast) -> None:
    """`operators`, whose member is grp, is in a role with a grant."""
    apply(ChangeSet.of(AddGroup("role:readers"), Include("operators", "role:readers")), author=COMMAND)
    add_grant("role:readers", "dataset:hr.salaries", "READ")


def reviewed(campaign: Campaign) -> ReviewItem:
    return item_of(campaign, "group:operators", "role:readers")


def test_an_item_shows_since_when_by_whom_and_why_the_group_is_in_the_role_and_what_that_gives(cast):
    salaries, today = Entity.objects.get(key="hr.salaries"), timezone.now().date()
    UsageDay.objects.create(user=cast["grp"], entity=salaries, day=today, count=1)
    campaign = open_campaign()
    item = reviewed(campaign)
    assert (item.source, item.reach, item.last_used_on) == (ItemSource.ROLE_GROUP, 1, today)
    assert item.granted_at is not None and (item.granted_by, item.reason) == ("a command", "because")
    texts = [line.text for line in evidence_lines(item, knows_use=True)]
    assert "gives 1 grant" in texts and f"last used {today.day} {today:%B %Y}" in texts
    levels = item_levels(campaign.items.filter(source=ItemSource.ROLE_GROUP))
    assert (levels.memberships, levels.groups, levels.other) == (1, 1, 0)


def test_an_item_says_how_many_active_members_of_the_group_it_concerns(cast):
    for name in ("out", "dee", "ina"):
        add_member(name, "operators")
    add_member("dee", "role:readers")
    item = reviewed(open_campaign())
    assert (item.peers, item.peer_holders, item.peer_group) == (3, 1, "operators")
    texts = [line.text for line in evidence_lines(item, knows_use=True)]
    assert "3 members, 1 of them directly in the role too" in texts
    assert not any("others in" in text for text in texts)


def test_a_scope_contains_the_members_of_a_role_and_the_memberships_of_a_group():
    def memberships(**scope) -> set[str]:
        items = open_campaign(scope=scope).items.all()
        return {f"{item.principal} {item.target}" for item in items if item.is_membership}

    of_group, of_user = "group:operators role:readers", "user:grp group:operators"
    assert memberships() == memberships(group="operators") == {of_group, of_user}
    assert memberships(group="role:readers") == memberships(sources=["role-group"]) == {of_group}
    assert memberships(user="grp") == memberships(sources=["membership"]) == {of_user}


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        ({}, "grants and memberships"),
        ({"user": "grp"}, "grants and memberships of user:grp"),
        ({"group": "operators"}, "grants and memberships of group:operators"),
        ({"group": "operators", "sources": ["membership"]}, "memberships of users of group:operators"),
        ({"group": "operators", "sources": ["role-group"]}, "memberships of groups of group:operators"),
        ({"sources": ["user", "role-group"]}, "grants to users and memberships of groups"),
        ({"namespace": "hr", "privileges": ["ADMIN"]}, "grants of ADMIN in namespace:hr"),
    ],
)
def test_the_text_of_a_scope_tells_users_and_groups_apart(scope, text):
    assert str(parse_scope(scope)) == text


def test_a_user_has_no_memberships_of_groups_in_roles():
    with pytest.raises(ReviewError, match="a user has .* no memberships of groups in roles"):
        parse_scope({"user": "grp", "sources": ["role-group"]})


def test_members_of_a_role_whose_grant_of_admin_has_ended_are_no_administrators(cast):
    UserGrant.objects.all().delete()
    add_member("dee", "role:readers")
    for principal in ("group:operators", "role:readers"):
        add_grant(principal, "dataset:hr.salaries", "ADMIN")
    assert item_of(open_campaign(), "user:grp", "group:operators").admins_left == 1
    GroupGrant.objects.filter(group__name="role:readers").update(valid_until=timezone.now() - DAY)
    assert item_of(open_campaign(), "user:grp", "group:operators").admins_left == 0


@pytest.mark.django_db(transaction=True)
def test_the_cost_of_the_items_of_a_role_is_proportional_to_its_members():
    if connection.vendor != "postgresql":
        pytest.skip("SQLite does not say how many rows a step reads")
    users = User.objects.bulk_create(User(username=f"u{n}", is_principal=True) for n in range(200))
    groups = Group.objects.bulk_create(Group(name=f"g{n}") for n in range(20))
    role = Group.objects.get(name="role:readers")
    Membership.objects.bulk_create(
        Membership(user=user, group=groups[n % 20]) for n, user in enumerate(users)
    )
    RoleGroup.objects.bulk_create(RoleGroup(group=group, role=role) for group in groups)
    write_role_memberships([group.pk for group in groups])
    add_grant(role.name, "dataset:hr.salaries", "ADMIN")
    rules = preparation_rules(new_campaign(), timezone.now())
    text, parameters = insert_items_sql(rules, ItemSource.ROLE_GROUP, RoleGroup.objects.order_by())
    with connection.cursor() as cursor:
        # statistics and dead rows of earlier tests say nothing about these
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + text, parameters)
        plan = cursor.fetchone()[0]
    steps = _steps(json.loads(plan) if isinstance(plan, str) else plan)
    longest = max(steps, key=_row_count)
    assert 200 <= _row_count(longest) <= 2 * Belonging.objects.count(), longest


def _row_count(step: dict) -> float:
    return step["Actual Loops"] * step["Actual Rows"]


def _steps(plan) -> Iterator[dict]:
    for part in plan if isinstance(plan, list) else plan.values():
        if isinstance(part, dict | list):
            yield from _steps(part)
    if isinstance(plan, dict) and "Node Type" in plan:
        yield plan


def test_a_membership_of_a_group_in_a_role_is_unused_if_no_member_used_what_the_role_gives(cast):
    salaries, today = Entity.objects.get(key="hr.salaries"), timezone.now().date()
    UsageDay.objects.create(user=cast["dee"], entity=salaries, day=today, count=1)
    scope = {"sources": ["membership", "role-group"], "unused_days": 90}
    assert open_campaign(scope=scope).item_count == 2
    UsageDay.objects.create(user=cast["grp"], entity=salaries, day=today - 89 * DAY, count=1)
    # grp uses the role through the group
    assert "no grants" in open_campaign(scope=scope).error


def test_a_member_of_the_group_does_not_review_it():
    campaign = open_campaign(reviewer_rule="group", reviewer_group="operators")
    item = reviewed(campaign)
    assert (item.reviewer, item.escalated) == (None, True)
    campaign.items.update(reviewer=account("grp"))
    with pytest.raises(ReviewError, match="your own access"):
        answer(campaign, [item], "keep", by="grp")


def test_the_filter_by_group_finds_its_membership():
    campaign = open_campaign()
    found = matching_items(campaign.items.all(), ItemFilter(principal="group:operators", source="role-group"))
    assert [item.target for item in found] == ["role:readers"]
    assert not matching_items(campaign.items.all(), ItemFilter(principal="user:operators")).exists()


def test_revoking_ends_the_memberships_of_the_role_with_a_plan_that_can_be_undone():
    campaign = open_campaign()
    answer(campaign, [reviewed(campaign)], "revoke")
    (plan,) = finish(campaign)
    (row,) = plan.items.all()
    assert (row.verb, row.principal, row.group) == ("leave", "group:operators", "role:readers")
    apply_plan(plan)
    assert not RoleGroup.objects.exists() and not RoleMembership.objects.exists()
    apply_plan(create_inverse(plan))
    assert RoleMembership.objects.get().user == account("grp")
    # the row is another one
    assert reviewed(open_campaign()).previous_answer == ""


def test_shortening_gives_the_membership_an_end():
    campaign, until = open_campaign(), (timezone.now() + 30 * DAY).replace(microsecond=0)
    answer(campaign, [reviewed(campaign)], "shorten", new_until=until)
    (plan,) = finish(campaign)
    apply_plan(plan)
    assert RoleGroup.objects.get().valid_until == RoleMembership.objects.get().valid_until == until
    again = reviewed(open_campaign())
    assert (again.previous_answer, again.valid_until) == ("shorten", until)


def test_a_group_that_left_the_role_is_marked_and_left_out():
    campaign = open_campaign()
    answer(campaign, [reviewed(campaign)], "revoke")
    apply(ChangeSet.of(Exclude("operators", "role:readers")), author=COMMAND)
    mark_removed_items(campaign)
    assert reviewed(campaign).removal == Removal.REVOKED
    assert finish(campaign) == [] and campaign.figures["left_out"] == 1
