"""Plans that revoke grants without a recorded use."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from entities.models import Entity
from grants.errors import PlanError, PrincipalError, StalePlan
from grants.models import GroupGrant, JournalLine, User, UserGrant
from grants.models.requests import NamespaceApprovers
from grants.plans.sources.unused import unused_plan
from grants.usage.storage import UsageRecord, add_usage
from tests.support.authors import COMMAND, all_grants
from tests.support.changes import add_member, apply_plan, change_grants, items_of, remove_member, renew_plan

pytestmark = pytest.mark.usefixtures("cast")
WINDOW = 30


def use(user, entity, days_ago):
    kind, _, key = entity.partition(":")
    add_usage([UsageRecord(user, kind, key, timezone.now().date() - timedelta(days=days_ago))])


def revoked(**scope):
    return {item[1:] for item in items_of(unused_plan.create(COMMAND, since=WINDOW, **scope))}


@pytest.fixture
def old_grants():
    """Let all grants be older than the window, which the records cover."""
    for model in (UserGrant, GroupGrant):
        model.objects.update(granted_at=timezone.now() - timedelta(days=WINDOW + 10))
    use("ned", "dataset:sales.orders", WINDOW + 5)


def grants_of(principal):
    return {grant for grant in revoked() if grant[0] == principal}


def test_a_grant_is_kept_while_the_user_uses_the_entity_or_anything_inside_it(old_grants):
    before = grants_of("user:ned")
    assert ("user:ned", "dataset:sales.orders", "ADMIN") in before
    use("ned", "dataset:sales.orders", WINDOW)
    kept = before - grants_of("user:ned")
    assert kept == {grant for grant in before if grant[1] in ("dataset:sales.orders", "namespace:sales")}
    use("dee", "dataset:sales.customers", 0)
    assert before - grants_of("user:ned") == kept


def test_a_grant_of_a_group_is_kept_while_one_member_uses_it(old_grants):
    before = grants_of("group:operators")
    assert before
    entity = next(iter(before))[1]
    use("out", entity, 1)
    assert grants_of("group:operators") == before
    use("grp", entity, 1)
    assert entity not in {grant[1] for grant in grants_of("group:operators")}


def test_new_grants_and_those_of_inactive_users_are_kept(old_grants):
    before = revoked()
    assert not {grant for grant in before if grant[0] == "user:ina"}
    UserGrant.objects.filter(user__username="ned").update(granted_at=timezone.now())
    assert before - revoked() == {grant for grant in before if grant[0] == "user:ned"}


@pytest.mark.parametrize(("since", "records"), [(0, True), (WINDOW + 6, True), (10**12, True), (1, False)])
def test_nothing_is_unused_for_longer_than_the_records_cover(request, since, records):
    if records:
        request.getfixturevalue("old_grants")
    with pytest.raises(PlanError, match="so nothing is known to be unused"):
        unused_plan.create(COMMAND, since=since)


def test_a_plan_is_limited_applied_and_renewed(old_grants):
    before = all_grants()
    plan = unused_plan.create(COMMAND, since=WINDOW, namespace="namespace:sales")
    assert plan.recipe == {"namespace": "namespace:sales", "since": WINDOW}
    items = {item[1:] for item in items_of(renew_plan(plan))}
    assert items and all(":sales" in grant[1] for grant in items)
    apply_plan(unused_plan.create(COMMAND, since=WINDOW, namespace="namespace:sales"))
    assert before - all_grants() == items


@pytest.fixture
def old_memberships(old_grants):
    """Let the membership of grp be older than the window too."""
    remove_member("grp", "operators")
    add_member("grp", "operators")
    JournalLine.objects.filter(action="member-add").update(at=timezone.now() - timedelta(days=WINDOW + 10))


def changes_for(user, **scope):
    plan = unused_plan.create(COMMAND, since=WINDOW, user=user, **scope)
    return {
        (row.verb, row.principal, str(row.address) if row.permission_id else f"group:{row.group_name}")
        for row in plan.items.all()
    }


def test_a_plan_for_one_user_takes_only_what_this_user_has_and_does_not_use(old_memberships):
    assert changes_for("grp") == {("leave", "user:grp", "group:operators")}
    assert changes_for("ned") == {("revoke", *grant[:2]) for grant in grants_of("user:ned")}
    use("ned", "dataset:sales.orders", 1)
    assert changes_for("ned") == {("revoke", *grant[:2]) for grant in grants_of("user:ned")}, (
        "as the plan for all users"
    )
    used = next(iter(grants_of("group:operators")))[1]
    use("grp", used, 1)
    with pytest.raises(PlanError, match="user:grp has used everything"):
        changes_for("grp")


def test_a_plan_for_one_user_keeps_new_and_limited_memberships_and_groups_with_another_purpose(
    old_memberships,
):
    change_grants(grant=[("user:grp", "dataset:sales.orders", "READ")])
    UserGrant.objects.filter(user__username="grp").update(
        granted_at=timezone.now() - timedelta(days=WINDOW + 10)
    )
    own = {("revoke", "user:grp", "dataset:sales.orders")}
    leave = {("leave", "user:grp", "group:operators")}
    assert changes_for("grp") == own | leave
    assert changes_for("grp", namespace="namespace:sales") == own, "a membership belongs to no namespace"
    NamespaceApprovers.objects.create(
        namespace=Entity.objects.get(kind="namespace", key="sales"), group=Group.objects.get(name="operators")
    )
    assert changes_for("grp") == own
    NamespaceApprovers.objects.all().delete()
    JournalLine.objects.filter(action="member-add").update(at=timezone.now())
    assert changes_for("grp") == own


def test_a_plan_for_one_user_becomes_stale_with_a_new_grant_to_the_group_and_is_renewed(old_memberships):
    plan = unused_plan.create(COMMAND, since=WINDOW, user="grp")
    change_grants(grant=[("group:operators", "dataset:sales.customers", "READ")])
    with pytest.raises(StalePlan):
        apply_plan(plan)
    renewed = renew_plan(plan)
    assert renewed.recipe == {"namespace": "", "since": WINDOW, "user": "grp"}
    apply_plan(renewed)
    assert not User.objects.get(username="grp").groups.exists()


def test_unknown_and_inactive_users_have_nothing_to_revoke(old_memberships):
    with pytest.raises(PrincipalError, match="user:nobody"):
        unused_plan.create(COMMAND, since=WINDOW, user="nobody")
    with pytest.raises(PlanError, match="there is nothing to revoke"):
        unused_plan.create(COMMAND, since=WINDOW, user="ina")
