"""What would be lost if somebody left or a group were removed, and what tells two people apart."""

import pytest
from django.contrib.auth.models import Group

from entities.address import parse_address
from entities.selectors import entity_at
from grants.changes.services import change_grants
from grants.models import User
from grants.principals.administrator_loss import capped_admin_count, loss_if_member_removed, loss_if_removed, loss_if_revoked
from grants.principals.user_comparison import compare_groups, differing_entities
from tests.support.cast import SETUP, create_sample_tenant

pytestmark = pytest.mark.django_db


def left(gone) -> set[tuple[str, int, str]]:
    return {(str(row.entity), row.admins, row.heir) for row in loss_if_removed(gone).rows}


def test_who_administers_alone_leaves_nobody_behind():
    ned = create_sample_tenant()["ned"]
    found = loss_if_removed(ned)
    assert (found.none, found.one, found.is_cut) == (6, 0, False)
    assert {str(row.entity) for row in found.rows} >= {"namespace:sales", "dataset:sales.orders"}


def test_one_other_administrator_is_named_and_two_are_enough():
    cast = create_sample_tenant()
    change_grants(author=SETUP, grant=[("user:dee", parse_address("dataset:sales.orders"), "ADMIN"),
                                       ("user:dee", parse_address("dataset:sales.customers"), "ADMIN"),
                                       ("group:operators", parse_address("dataset:sales.customers"), "ADMIN")])
    rows = left(cast["ned"])
    assert ("dataset:sales.orders", 1, "dee") in rows
    assert "dataset:sales.customers" not in {row[0] for row in rows}


def test_inactive_people_administer_nothing():
    cast = create_sample_tenant()
    change_grants(author=SETUP, grant=[("user:ina", parse_address("dataset:sales.orders"), "ADMIN")])
    assert ("dataset:sales.orders", 0, "") in left(cast["ned"])


def test_leaving_takes_away_what_is_held_through_a_group():
    cast = create_sample_tenant()
    change_grants(author=SETUP, grant=[("group:operators", parse_address("dataset:hr.salaries"), "ADMIN")])
    assert left(cast["grp"]) == {("dataset:hr.salaries", 0, "")}
    Group.objects.get(name="operators").user_set.add(cast["dee"])
    assert left(cast["grp"]) == {("dataset:hr.salaries", 1, "dee")}
    Group.objects.get(name="operators").user_set.add(cast["ned"])
    assert left(cast["grp"]) == set()


def test_removing_a_group_takes_away_what_it_holds_and_nothing_else():
    cast, salaries = create_sample_tenant(), "dataset:hr.salaries"
    operators = Group.objects.get(name="operators")
    change_grants(author=SETUP, grant=[("group:operators", parse_address(salaries), "ADMIN")])
    operators.user_set.add(cast["dee"], cast["ned"])
    assert left(operators) == {(salaries, 0, "")}
    change_grants(author=SETUP, grant=[("user:ned", parse_address(salaries), "ADMIN")])
    assert left(operators) == {(salaries, 1, "ned")}
    Group.objects.create(name="stewards").user_set.add(cast["out"])
    change_grants(author=SETUP, grant=[("group:stewards", parse_address(salaries), "ADMIN")])
    assert left(operators) == set()


def test_a_group_of_nobody_active_takes_nothing_with_it():
    cast = create_sample_tenant()
    Group.objects.create(name="stewards").user_set.add(cast["ina"])
    change_grants(author=SETUP, grant=[("group:stewards", parse_address("dataset:hr.salaries"), "ADMIN")])
    assert left(Group.objects.get(name="stewards")) == set()


def test_what_is_not_live_cannot_be_stranded():
    cast = create_sample_tenant()
    change_grants(author=SETUP, grant=[("user:dee", parse_address("dataset:sales.forecast"), "ADMIN"),
                                       ("user:dee", parse_address("dataset:sales.legacy"), "ADMIN")])
    assert left(cast["dee"]) == set()


def test_looking_at_it_costs_the_same_however_much_is_administered(django_assert_max_num_queries):
    cast = create_sample_tenant()
    for gone in (cast["ned"], cast["out"], Group.objects.get(name="operators")):
        with django_assert_max_num_queries(8):
            loss_if_removed(gone)


ORDERS, SALARIES = "dataset:sales.orders", "dataset:hr.salaries"


def numbers(found) -> tuple[int, int]:
    return found.none, found.one


def granted(*items: tuple[str, str], verb: str = "grant") -> None:
    change_grants(author=SETUP, **{verb: [(principal, parse_address(address), "ADMIN") for principal, address in items]})


def revoked(holder, address: str) -> tuple[int, int]:
    return numbers(loss_if_revoked(holder, entity_at(parse_address(address))))


def test_revoking_strands_its_entity_and_no_other():
    cast = create_sample_tenant()
    found = loss_if_revoked(cast["ned"], entity_at(parse_address(ORDERS)))
    assert (numbers(found), [str(row.entity) for row in found.rows]) == ((1, 0), [ORDERS])
    granted(("user:dee", ORDERS))
    assert revoked(cast["ned"], ORDERS) == (0, 1)
    granted(("user:out", ORDERS))
    assert revoked(cast["ned"], ORDERS) == (0, 0)


def test_revoking_from_who_does_not_count_strands_nothing():
    cast = create_sample_tenant()
    granted(("user:ina", SALARIES), ("user:ned", "dataset:sales.legacy"))
    assert [revoked(cast["ina"], SALARIES), revoked(cast["dee"], ORDERS), revoked(cast["ned"], "dataset:sales.legacy")] == [
        (0, 0)] * 3


def test_who_administers_through_a_group_too_goes_on_after_the_own_grant():
    cast, operators = create_sample_tenant(), Group.objects.get(name="operators")
    granted(("user:grp", SALARIES), ("group:operators", SALARIES))
    assert revoked(cast["grp"], SALARIES) == revoked(operators, SALARIES) == (0, 0)
    granted(("user:grp", SALARIES), verb="revoke")
    assert revoked(operators, SALARIES) == (1, 0)
    operators.user_set.add(cast["dee"])
    granted(("user:grp", SALARIES))
    assert revoked(operators, SALARIES) == (0, 1)


def test_a_membership_that_ends_takes_only_what_it_gave():
    cast, operators = create_sample_tenant(), Group.objects.get(name="operators")
    granted(("group:operators", SALARIES), ("group:operators", ORDERS))
    assert numbers(loss_if_member_removed(cast["grp"], operators)) == (1, 1)
    granted(("user:grp", ORDERS))
    assert numbers(loss_if_member_removed(cast["grp"], operators)) == (1, 0)
    stewards = Group.objects.create(name="stewards")
    stewards.user_set.add(cast["grp"])
    granted(("group:stewards", SALARIES))
    assert numbers(loss_if_member_removed(cast["grp"], operators)) == (0, 0)


def test_nobody_who_stays_or_does_not_count_strands_by_a_membership():
    cast, operators = create_sample_tenant(), Group.objects.get(name="operators")
    granted(("group:operators", SALARIES))
    operators.user_set.add(cast["ina"], cast["dee"])
    assert numbers(loss_if_member_removed(cast["ina"], operators)) == (0, 0)
    assert numbers(loss_if_member_removed(cast["out"], operators)) == (0, 0)
    assert numbers(loss_if_member_removed(cast["grp"], operators)) == (0, 1)
    operators.user_set.add(cast["out"])
    assert numbers(loss_if_member_removed(cast["grp"], operators)) == (0, 0)


def test_administrators_are_counted_to_two_whatever_the_state():
    create_sample_tenant()
    granted(("user:dee", "dataset:sales.legacy"), ("user:ned", SALARIES), ("user:dee", SALARIES), ("group:operators", SALARIES))
    addresses = ("dataset:sales.legacy", SALARIES, "namespace:hr")
    assert [capped_admin_count(entity_at(parse_address(address))) for address in addresses] == [1, 2, 0]


def test_looking_at_one_change_costs_the_same_whatever_it_is(django_assert_max_num_queries):
    cast, operators = create_sample_tenant(), Group.objects.get(name="operators")
    granted(("group:operators", SALARIES), ("group:operators", ORDERS))
    orders = entity_at(parse_address(ORDERS))
    for look in (lambda: loss_if_revoked(cast["ned"], orders), lambda: loss_if_revoked(operators, orders),
                 lambda: loss_if_member_removed(cast["grp"], operators)):
        with django_assert_max_num_queries(10):
            look()


def apart(one: User, other: User) -> set[str]:
    both, only_one, only_other = compare_groups(one, other)
    return set(map(str, differing_entities(one, other, only_one=only_one, only_other=only_other, both=both).entities))


def test_two_people_are_told_apart_by_what_only_one_of_them_holds():
    cast = create_sample_tenant()
    assert apart(cast["dee"], cast["out"]) == {"dataset:sales.orders", "dataset:sales.legacy"}
    assert apart(cast["dee"], cast["dee"]) == set()
    assert apart(cast["grp"], cast["out"]) == {"program:sales.shop.workflow.daily", "dataset:sales.forecast"}


def test_what_one_holds_itself_and_the_other_through_a_group_is_the_same():
    cast = create_sample_tenant()
    change_grants(author=SETUP, grant=[("user:out", parse_address("program:sales.shop.workflow.daily"), "EXECUTE")])
    assert apart(cast["grp"], cast["out"]) == {"dataset:sales.forecast"}
    Group.objects.get(name="operators").user_set.add(cast["out"])
    assert apart(cast["grp"], cast["out"]) == set()


def test_what_a_common_group_gives_is_held_by_both():
    cast = create_sample_tenant()
    Group.objects.get(name="operators").user_set.add(cast["dee"])
    change_grants(author=SETUP, grant=[("user:dee", parse_address("program:sales.shop.workflow.daily"), "EXECUTE")])
    assert apart(cast["dee"], cast["grp"]) == {"dataset:sales.orders", "dataset:sales.legacy"}
