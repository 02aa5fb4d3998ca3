"""Plans that revoke grants without a recorded use."""

from datetime import timedelta

import pytest
from django.utils import timezone

from grants.errors import PlanError
from grants.models import GroupGrant, UserGrant
from grants.plans.sources.unused import unused_plan
from grants.usage.storage import UsageRecord, add_usage
from tests.support.authors import COMMAND, all_grants
from tests.support.changes import apply_plan, items_of, renew_plan

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
