"""Test the forecast of stranded entities, and the comparison of two users."""

import pytest
from django.contrib.auth.models import Group

from entities.address import parse_address
from entities.selectors import entity_at
from grants.models import User
from grants.principals.administrator_loss import (
    capped_admin_count,
    loss_if_member_removed,
    loss_if_removed,
    loss_if_revoked,
)
from grants.principals.user_comparison import compare_groups, differing_entities
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_grant, change_grants

pytestmark = pytest.mark.django_db


def stranded_after_removal(removed) -> set[tuple[str, int, str]]:
    return {
        (str(row.entity), row.admin_count, row.remaining_admin) for row in loss_if_removed(removed).entities
    }


def test_entities_of_a_sole_administrator_are_stranded_without_an_administrator():
    ned = create_sample_tenant()["ned"]
    loss = loss_if_removed(ned)
    assert (loss.without_admin_count, loss.one_admin_count, loss.max_checked) == (6, 0, 0)
    assert {str(row.entity) for row in loss.entities} >= {"namespace:sales", "dataset:sales.orders"}


def test_a_single_remaining_administrator_is_named_and_two_are_enough():
    cast = create_sample_tenant()
    change_grants(
        grant=[
            ("user:dee", "dataset:sales.orders", "ADMIN"),
            ("user:dee", "dataset:sales.customers", "ADMIN"),
            ("group:operators", "dataset:sales.customers", "ADMIN"),
        ]
    )
    rows = stranded_after_removal(cast["ned"])
    assert ("dataset:sales.orders", 1, "dee") in rows
    assert "dataset:sales.customers" not in {row[0] for row in rows}


def test_inactive_users_do_not_count_as_administrators():
    cast = create_sample_tenant()
    add_grant("user:ina", "dataset:sales.orders", "ADMIN")
    assert ("dataset:sales.orders", 0, "") in stranded_after_removal(cast["ned"])


def test_a_user_who_leaves_loses_privileges_through_groups():
    cast = create_sample_tenant()
    add_grant("group:operators", "dataset:hr.salaries", "ADMIN")
    assert stranded_after_removal(cast["grp"]) == {("dataset:hr.salaries", 0, "")}
    Group.objects.get(name="operators").user_set.add(cast["dee"])
    assert stranded_after_removal(cast["grp"]) == {("dataset:hr.salaries", 1, "dee")}
    Group.objects.get(name="operators").user_set.add(cast["ned"])
    assert stranded_after_removal(cast["grp"]) == set()


def test_removing_a_group_ends_its_grants_and_nothing_else():
    cast, salaries = create_sample_tenant(), "dataset:hr.salaries"
    operators = Group.objects.get(name="operators")
    add_grant("group:operators", salaries, "ADMIN")
    operators.user_set.add(cast["dee"], cast["ned"])
    assert stranded_after_removal(operators) == {(salaries, 0, "")}
    add_grant("user:ned", salaries, "ADMIN")
    assert stranded_after_removal(operators) == {(salaries, 1, "ned")}
    Group.objects.create(name="stewards").user_set.add(cast["out"])
    add_grant("group:stewards", salaries, "ADMIN")
    assert stranded_after_removal(operators) == set()


def test_removing_a_group_without_active_users_strands_nothing():
    cast = create_sample_tenant()
    Group.objects.create(name="stewards").user_set.add(cast["ina"])
    add_grant("group:stewards", "dataset:hr.salaries", "ADMIN")
    assert stranded_after_removal(Group.objects.get(name="stewards")) == set()


def test_only_live_entities_can_be_stranded():
    cast = create_sample_tenant()
    change_grants(
        grant=[
            ("user:dee", "dataset:sales.forecast", "ADMIN"),
            ("user:dee", "dataset:sales.legacy", "ADMIN"),
        ]
    )
    assert stranded_after_removal(cast["dee"]) == set()


def test_the_number_of_queries_does_not_grow_with_the_administered_entities(django_assert_max_num_queries):
    cast = create_sample_tenant()
    for principal in (cast["ned"], cast["out"], Group.objects.get(name="operators")):
        with django_assert_max_num_queries(8):
            loss_if_removed(principal)


ORDERS, SALARIES = "dataset:sales.orders", "dataset:hr.salaries"


def loss_counts(loss) -> tuple[int, int]:
    return loss.without_admin_count, loss.one_admin_count


def change_admin_grants(*items: tuple[str, str], verb: str = "grant") -> None:
    change_grants(**{verb: [(principal, address, "ADMIN") for principal, address in items]})


def loss_counts_if_revoked(holder, address: str) -> tuple[int, int]:
    return loss_counts(loss_if_revoked(holder, entity_at(parse_address(address))))


def test_revoking_a_grant_strands_only_its_entity():
    cast = create_sample_tenant()
    loss = loss_if_revoked(cast["ned"], entity_at(parse_address(ORDERS)))
    assert (loss_counts(loss), [str(row.entity) for row in loss.entities]) == ((1, 0), [ORDERS])
    change_admin_grants(("user:dee", ORDERS))
    assert loss_counts_if_revoked(cast["ned"], ORDERS) == (0, 1)
    change_admin_grants(("user:out", ORDERS))
    assert loss_counts_if_revoked(cast["ned"], ORDERS) == (0, 0)


def test_revoking_from_a_principal_that_does_not_count_strands_nothing():
    cast = create_sample_tenant()
    change_admin_grants(("user:ina", SALARIES), ("user:ned", "dataset:sales.legacy"))
    revocations = [("ina", SALARIES), ("dee", ORDERS), ("ned", "dataset:sales.legacy")]
    assert [loss_counts_if_revoked(cast[name], address) for name, address in revocations] == [(0, 0)] * 3


def test_an_administrator_through_a_group_remains_after_the_direct_grant_ends():
    cast, operators = create_sample_tenant(), Group.objects.get(name="operators")
    change_admin_grants(("user:grp", SALARIES), ("group:operators", SALARIES))
    assert (
        loss_counts_if_revoked(cast["grp"], SALARIES) == loss_counts_if_revoked(operators, SALARIES) == (0, 0)
    )
    change_admin_grants(("user:grp", SALARIES), verb="revoke")
    assert loss_counts_if_revoked(operators, SALARIES) == (1, 0)
    operators.user_set.add(cast["dee"])
    change_admin_grants(("user:grp", SALARIES))
    assert loss_counts_if_revoked(operators, SALARIES) == (0, 1)


def test_removing_a_member_ends_only_the_privileges_of_that_group():
    cast, operators = create_sample_tenant(), Group.objects.get(name="operators")
    change_admin_grants(("group:operators", SALARIES), ("group:operators", ORDERS))
    assert loss_counts(loss_if_member_removed(cast["grp"], operators)) == (1, 1)
    change_admin_grants(("user:grp", ORDERS))
    assert loss_counts(loss_if_member_removed(cast["grp"], operators)) == (1, 0)
    stewards = Group.objects.create(name="stewards")
    stewards.user_set.add(cast["grp"])
    change_admin_grants(("group:stewards", SALARIES))
    assert loss_counts(loss_if_member_removed(cast["grp"], operators)) == (0, 0)


def test_removing_a_member_who_remains_administrator_or_is_inactive_strands_nothing():
    cast, operators = create_sample_tenant(), Group.objects.get(name="operators")
    change_admin_grants(("group:operators", SALARIES))
    operators.user_set.add(cast["ina"], cast["dee"])
    assert loss_counts(loss_if_member_removed(cast["ina"], operators)) == (0, 0)
    assert loss_counts(loss_if_member_removed(cast["out"], operators)) == (0, 0)
    assert loss_counts(loss_if_member_removed(cast["grp"], operators)) == (0, 1)
    operators.user_set.add(cast["out"])
    assert loss_counts(loss_if_member_removed(cast["grp"], operators)) == (0, 0)


def test_administrators_are_counted_up_to_two_in_every_state():
    create_sample_tenant()
    change_admin_grants(
        ("user:dee", "dataset:sales.legacy"),
        ("user:ned", SALARIES),
        ("user:dee", SALARIES),
        ("group:operators", SALARIES),
    )
    addresses = ("dataset:sales.legacy", SALARIES, "namespace:hr")
    assert [capped_admin_count(entity_at(parse_address(address))) for address in addresses] == [1, 2, 0]


def test_the_loss_of_one_change_takes_a_fixed_number_of_queries(django_assert_max_num_queries):
    cast, operators = create_sample_tenant(), Group.objects.get(name="operators")
    change_admin_grants(("group:operators", SALARIES), ("group:operators", ORDERS))
    orders = entity_at(parse_address(ORDERS))
    for forecast_loss in (
        lambda: loss_if_revoked(cast["ned"], orders),
        lambda: loss_if_revoked(operators, orders),
        lambda: loss_if_member_removed(cast["grp"], operators),
    ):
        with django_assert_max_num_queries(10):
            forecast_loss()


def differing_addresses(first: User, second: User) -> set[str]:
    return set(map(str, differing_entities(first, second, compare_groups(first, second)).entities))


def test_users_differ_in_privileges_that_only_one_of_them_has():
    cast = create_sample_tenant()
    assert differing_addresses(cast["dee"], cast["out"]) == {"dataset:sales.orders", "dataset:sales.legacy"}
    assert differing_addresses(cast["dee"], cast["dee"]) == set()
    assert differing_addresses(cast["grp"], cast["out"]) == {
        "program:sales.shop.workflow.daily",
        "dataset:sales.forecast",
    }


def test_a_direct_grant_and_a_grant_through_a_group_are_no_difference():
    cast = create_sample_tenant()
    add_grant("user:out", "program:sales.shop.workflow.daily", "EXECUTE")
    assert differing_addresses(cast["grp"], cast["out"]) == {"dataset:sales.forecast"}
    Group.objects.get(name="operators").user_set.add(cast["out"])
    assert differing_addresses(cast["grp"], cast["out"]) == set()


def test_grants_of_a_common_group_are_no_difference():
    cast = create_sample_tenant()
    Group.objects.get(name="operators").user_set.add(cast["dee"])
    add_grant("user:dee", "program:sales.shop.workflow.daily", "EXECUTE")
    assert differing_addresses(cast["dee"], cast["grp"]) == {"dataset:sales.orders", "dataset:sales.legacy"}
