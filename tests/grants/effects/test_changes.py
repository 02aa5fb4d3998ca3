"""Test that the changes of a plan are those of its items."""

import pytest

from entities.address import parse_address
from entities.vocabulary import READ
from grants.change_set import Grant, Revoke
from grants.plans.items import changes_of_plan
from tests.support.cast import create_sample_tenant
from tests.support.changes import create_plan_from_changes

pytestmark = pytest.mark.django_db


def test_a_plan_has_a_change_for_each_item_in_order():
    create_sample_tenant()
    orders = parse_address("dataset:sales.orders")
    plan = create_plan_from_changes(
        grant=[("group:operators", orders, READ)], revoke=[("user:dee", orders, READ)]
    )
    assert list(changes_of_plan(plan)) == [
        Grant("group:operators", orders, READ),
        Revoke("user:dee", orders, READ),
    ]
