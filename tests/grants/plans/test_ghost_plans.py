"""Test plans that revoke the grants on deleted addresses."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.address import parse_address
from entities.models import Entity, State
from entities.services import ensure_entities
from grants.errors import NotAdministrator, PlanError, StaleBase
from grants.models import Plan
from grants.plans.apply import apply_plan, create_inverse_plan
from grants.plans.create import ITEMS_PER_BATCH
from grants.plans.renew import renew_plan
from grants.plans.sources.ghosts import create_ghost_plan
from grants.plans.staleness import invalidating_line
from tests.support.authors import COMMAND, all_grants, author_with, database_state
from tests.support.cast import create_sample_tenant
from tests.support.changes import change_grants, delete_entity, recreate_entity

pytestmark = pytest.mark.django_db

LEGACY, SALARIES = "dataset:sales.legacy", "dataset:hr.salaries"
GHOST = ("user:dee", LEGACY, "WRITE")


@pytest.fixture(autouse=True)
def cast():
    return create_sample_tenant()


def items(plan):
    return [(row.principal, str(row.address), str(row.privilege)) for row in plan.items.order_by("position")]


def add_ghost_grants():
    change_grants(
        author=COMMAND,
        grant=[
            ("group:operators", parse_address(SALARIES), "READ"),
            ("user:ina", parse_address(SALARIES), "ADMIN"),
        ],
    )
    delete_entity(author=COMMAND, address=parse_address(SALARIES), generation="final")


def test_a_ghost_plan_revokes_grants_on_deleted_addresses_and_keeps_those_on_planned_ones():
    before = all_grants()
    plan = create_ghost_plan(author=COMMAND)
    assert (
        items(plan) == [GHOST]
        and plan.effect["revokes"] == 1
        and plan.recipe == {"namespace": "", "note": ""}
    )
    assert plan.title == "Revoke the grants on deleted addresses" and all_grants() == before
    apply_plan(author=COMMAND, plan_id=plan.pk)
    assert (
        before - all_grants() == {GHOST}
        and ("group:operators", "dataset:sales.forecast", "READ") in all_grants()
    )
    apply_plan(author=COMMAND, plan_id=create_inverse_plan(author=COMMAND, plan_id=plan.pk).pk)
    assert all_grants() == before


def test_a_ghost_plan_for_a_namespace_revokes_the_leftover_grants_on_and_inside_it():
    add_ghost_grants()
    assert items(create_ghost_plan(author=COMMAND, namespace=parse_address("namespace:sales"))) == [GHOST]
    assert items(create_ghost_plan(author=COMMAND, namespace=parse_address("namespace:hr"))) == [
        ("user:ina", SALARIES, "ADMIN"),
        ("group:operators", SALARIES, "READ"),
    ]
    Entity.objects.filter(key="hr").update(state=State.DELETED)
    change_grants(author=COMMAND, grant=[("user:out", parse_address("namespace:hr"), "ADMIN")])
    assert ("user:out", "namespace:hr", "ADMIN") in items(
        create_ghost_plan(author=COMMAND, namespace=parse_address("namespace:hr"))
    )


def test_the_note_counts_the_grants_that_the_analysis_leaves_out():
    add_ghost_grants()
    assert (
        create_ghost_plan(author=COMMAND)
        .recipe["note"]
        .startswith("1 of these grants is held by inactive users")
    )


def test_without_leftover_grants_no_plan_is_created():
    with pytest.raises(PlanError, match="no grant is on a deleted address in namespace:hr"):
        create_ghost_plan(author=COMMAND, namespace=parse_address("namespace:hr"))
    with pytest.raises(PlanError, match="is not a namespace"):
        create_ghost_plan(author=COMMAND, namespace=parse_address(LEGACY))
    assert not Plan.objects.exists()


@pytest.mark.parametrize("role", ["auditor", "ordinary"])
def test_only_administrators_create_ghost_plans(role):
    with pytest.raises(NotAdministrator):
        create_ghost_plan(author=author_with(role))


def test_a_recreated_entity_makes_a_ghost_plan_stale():
    plan = create_ghost_plan(author=COMMAND)
    add_ghost_grants()
    assert invalidating_line(plan) is None
    recreate_entity(author=COMMAND, address=parse_address(LEGACY), generation="final")
    before = database_state()
    with pytest.raises(StaleBase):
        apply_plan(author=COMMAND, plan_id=plan.pk)
    assert database_state() == before
    renewed = renew_plan(author=COMMAND, plan_id=plan.pk)
    assert {address for _, address, _ in items(renewed)} == {SALARIES} and renewed.renewal_of == plan


def test_the_number_of_statements_grows_by_batch_not_by_grant():
    def statements(first, last):
        addresses = [parse_address(f"dataset:sales.deleted{number}") for number in range(first, last)]
        ensure_entities(states=dict.fromkeys(addresses, "deleted"))
        change_grants(author=COMMAND, grant=[("user:ned", address, "READ") for address in addresses])
        with CaptureQueriesContext(connection) as captured:
            create_ghost_plan(author=COMMAND)
        return len(captured)

    few, many = statements(0, 3), statements(3, 300)
    assert many == few <= 20
    assert statements(300, ITEMS_PER_BATCH + 1) <= few + 3
