"""Plans that take away what users hold and their colleagues do not."""

import pytest
from django.contrib.auth.models import Group

from entities.address import parse_address
from entities.models import Entity
from entities.vocabulary import Privilege
from grants.change_set import Revoke
from grants.errors import PlanError, StalePlan
from grants.models.requests import NamespaceApprovers
from grants.plans.sources.outliers import outlier_plan
from tests.support.authors import COMMAND, all_grants
from tests.support.cast import PLANNED
from tests.support.changes import add_grant, add_group, add_member, apply_plan, renew_plan, revoke_grant

pytestmark = pytest.mark.usefixtures("cast")
PROGRAM, ORDERS = "program:sales.shop.workflow.daily", "dataset:sales.orders"
# all that the group gives
OF_OPERATORS = (("user:grp", PROGRAM, "EXECUTE"), ("user:grp", PLANNED, "READ"))


def plan_for(*rows):
    return outlier_plan.create(
        COMMAND, [Revoke(user, parse_address(address), Privilege(name)) for user, address, name in rows]
    )


def changes_of(plan):
    return [
        (row.verb, row.principal, str(row.address) if row.permission_id else f"group:{row.group_name}")
        for row in plan.items.order_by("position")
    ]


def test_direct_grants_are_revoked_and_nothing_else_changes():
    before, row = all_grants(), ("user:dee", ORDERS, "READ")
    plan = plan_for(row, row)
    assert changes_of(plan) == [("revoke", "user:dee", ORDERS)] and plan.recipe == {}
    assert changes_of(renew_plan(plan)) == changes_of(plan)
    apply_plan(plan_for(row))
    assert before - all_grants() == {row} and all_grants() < before


def test_a_privilege_of_a_group_that_gives_something_else_remains_and_the_plan_says_so():
    add_grant("user:grp", PROGRAM, "EXECUTE")
    plan = plan_for(OF_OPERATORS[0])
    assert changes_of(plan) == [("revoke", "user:grp", PROGRAM)]
    assert "1 privilege remains through groups" in plan.recipe["note"]
    assert "group:operators" in plan.recipe["note"]
    revoke_grant("user:grp", PROGRAM, "EXECUTE")
    with pytest.raises(PlanError, match="1 privilege remains through groups .*: group:operators"):
        plan_for(OF_OPERATORS[0])


def test_a_membership_that_gives_nothing_else_ends():
    plan = plan_for(*OF_OPERATORS)
    assert changes_of(plan) == [("leave", "user:grp", "group:operators")] and plan.recipe == {}
    add_grant("group:operators", ORDERS, "READ")
    with pytest.raises(StalePlan):
        apply_plan(plan)


def test_another_member_of_the_group_keeps_it():
    add_member("dee", "operators")
    assert changes_of(plan_for(*OF_OPERATORS)) == [("leave", "user:grp", "group:operators")]
    both = [(user, *row[1:]) for user in ("user:grp", "user:dee") for row in OF_OPERATORS]
    assert changes_of(plan_for(*both)) == [
        ("leave", "user:dee", "group:operators"),
        ("leave", "user:grp", "group:operators"),
    ]


def test_a_membership_in_a_group_with_another_purpose_remains():
    NamespaceApprovers.objects.create(
        namespace=Entity.objects.get(kind="namespace", key="sales"), group=Group.objects.get(name="operators")
    )
    with pytest.raises(PlanError, match="2 privileges remain"):
        plan_for(*OF_OPERATORS)


def test_a_privilege_by_a_pattern_remains_and_the_plan_says_so():
    add_grant("user:dee", "dataset:sales.*", "ADMIN")
    plan = plan_for(("user:dee", ORDERS, "READ"), ("user:dee", ORDERS, "ADMIN"))
    assert changes_of(plan) == [("revoke", "user:dee", ORDERS)]
    assert plan.recipe["note"].startswith("1 privilege comes from a grant on a pattern")


def test_many_groups_are_not_all_named():
    for number in range(7):
        add_group(f"team-{number}")
        add_member("out", f"team-{number}")
        for privilege in ("READ", "WRITE"):
            add_grant(f"group:team-{number}", ORDERS, privilege)
    with pytest.raises(PlanError, match="group:team-0, .*group:team-4 and 2 more"):
        plan_for(("user:out", ORDERS, "READ"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no privilege is selected"),
        ([("group:operators", PROGRAM, "EXECUTE")], "is not a user"),
        ([("user:out", ORDERS, "READ")], "1 privilege comes from .* or is not held any more"),
        (
            [("user:nobody", "dataset:sales.nothing", "READ")],
            "1 privilege comes from .* or is not held any more",
        ),
    ],
)
def test_a_selection_that_changes_nothing_is_refused(rows, message):
    with pytest.raises(PlanError, match=message):
        plan_for(*rows)


def test_the_number_of_queries_does_not_grow_with_the_selection(django_assert_max_num_queries):
    rows = [("user:ned", f"dataset:sales.{name}", "ADMIN") for name in ("orders", "customers")]
    with django_assert_max_num_queries(60) as queries:
        plan_for(rows[0], *OF_OPERATORS)
    add_member("dee", "operators")
    more = [("user:dee", *row[1:]) for row in OF_OPERATORS]
    with django_assert_max_num_queries(len(queries)):
        plan_for(*rows, *OF_OPERATORS, *more)
