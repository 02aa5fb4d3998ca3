"""What would be lost if somebody left or a group were removed, and what tells two people apart."""

import pytest
from django.contrib.auth.models import Group

from grants.comparing import entities_told_apart, groups_compared
from grants.leaving import leaving_of
from grants.models import User
from grants.services import grants_change
from tests.authors import at
from tests.cast import SETUP, house

pytestmark = pytest.mark.django_db


def left(gone) -> set[tuple[str, int, str]]:
    return {(str(row.entity), row.admins, row.heir) for row in leaving_of(gone).rows}


def test_who_administers_alone_leaves_nobody_behind():
    ned = house()["ned"]
    found = leaving_of(ned)
    assert (found.none, found.one, found.is_cut) == (6, 0, False)
    assert {str(row.entity) for row in found.rows} >= {"namespace:sales", "dataset:sales.orders"}


def test_one_other_administrator_is_named_and_two_are_enough():
    cast = house()
    grants_change(author=SETUP, grant=[("user:dee", at("dataset:sales.orders"), "ADMIN"),
                                       ("user:dee", at("dataset:sales.customers"), "ADMIN"),
                                       ("group:operators", at("dataset:sales.customers"), "ADMIN")])
    rows = left(cast["ned"])
    assert ("dataset:sales.orders", 1, "dee") in rows
    assert "dataset:sales.customers" not in {row[0] for row in rows}


def test_inactive_people_administer_nothing():
    cast = house()
    grants_change(author=SETUP, grant=[("user:ina", at("dataset:sales.orders"), "ADMIN")])
    assert ("dataset:sales.orders", 0, "") in left(cast["ned"])


def test_leaving_takes_away_what_is_held_through_a_group():
    cast = house()
    grants_change(author=SETUP, grant=[("group:operators", at("dataset:hr.salaries"), "ADMIN")])
    assert left(cast["grp"]) == {("dataset:hr.salaries", 0, "")}
    Group.objects.get(name="operators").user_set.add(cast["dee"])
    assert left(cast["grp"]) == {("dataset:hr.salaries", 1, "dee")}
    Group.objects.get(name="operators").user_set.add(cast["ned"])
    assert left(cast["grp"]) == set()


def test_removing_a_group_takes_away_what_it_holds_and_nothing_else():
    cast, salaries = house(), "dataset:hr.salaries"
    operators = Group.objects.get(name="operators")
    grants_change(author=SETUP, grant=[("group:operators", at(salaries), "ADMIN")])
    operators.user_set.add(cast["dee"], cast["ned"])
    assert left(operators) == {(salaries, 0, "")}
    grants_change(author=SETUP, grant=[("user:ned", at(salaries), "ADMIN")])
    assert left(operators) == {(salaries, 1, "ned")}
    Group.objects.create(name="stewards").user_set.add(cast["out"])
    grants_change(author=SETUP, grant=[("group:stewards", at(salaries), "ADMIN")])
    assert left(operators) == set()


def test_a_group_of_nobody_active_takes_nothing_with_it():
    cast = house()
    Group.objects.create(name="stewards").user_set.add(cast["ina"])
    grants_change(author=SETUP, grant=[("group:stewards", at("dataset:hr.salaries"), "ADMIN")])
    assert left(Group.objects.get(name="stewards")) == set()


def test_what_is_not_live_cannot_be_stranded():
    cast = house()
    grants_change(author=SETUP, grant=[("user:dee", at("dataset:sales.forecast"), "ADMIN"),
                                       ("user:dee", at("dataset:sales.legacy"), "ADMIN")])
    assert left(cast["dee"]) == set()


def test_looking_at_it_costs_the_same_however_much_is_administered(django_assert_max_num_queries):
    cast = house()
    for gone in (cast["ned"], cast["out"], Group.objects.get(name="operators")):
        with django_assert_max_num_queries(8):
            leaving_of(gone)


def apart(one: User, other: User) -> set[str]:
    both, only_one, only_other = groups_compared(one, other)
    return set(map(str, entities_told_apart(one, other, only_one=only_one, only_other=only_other, both=both).entities))


def test_two_people_are_told_apart_by_what_only_one_of_them_holds():
    cast = house()
    assert apart(cast["dee"], cast["out"]) == {"dataset:sales.orders", "dataset:sales.legacy"}
    assert apart(cast["dee"], cast["dee"]) == set()
    assert apart(cast["grp"], cast["out"]) == {"program:sales.shop.workflow.daily", "dataset:sales.forecast"}


def test_what_one_holds_itself_and_the_other_through_a_group_is_the_same():
    cast = house()
    grants_change(author=SETUP, grant=[("user:out", at("program:sales.shop.workflow.daily"), "EXECUTE")])
    assert apart(cast["grp"], cast["out"]) == {"dataset:sales.forecast"}
    Group.objects.get(name="operators").user_set.add(cast["out"])
    assert apart(cast["grp"], cast["out"]) == set()


def test_what_a_common_group_gives_is_held_by_both():
    cast = house()
    Group.objects.get(name="operators").user_set.add(cast["dee"])
    grants_change(author=SETUP, grant=[("user:dee", at("program:sales.shop.workflow.daily"), "EXECUTE")])
    assert apart(cast["dee"], cast["grp"]) == {"dataset:sales.orders", "dataset:sales.legacy"}
