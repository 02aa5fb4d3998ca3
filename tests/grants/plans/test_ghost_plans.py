"""Test plans that revoke the grants on deleted addresses."""

import pytest

from entities.address import parse_address
from entities.models import Entity, State
from grants.errors import PlanError, StaleBase
from grants.models import Plan
from grants.plans.sources.ghosts import ghost_plan
from grants.plans.staleness import invalidating_line
from tests.support.authors import COMMAND, all_grants, database_state
from tests.support.changes import (
    add_grant,
    apply_plan,
    change_grants,
    create_inverse,
    delete_entity,
    items_of,
    recreate_entity,
    renew_plan,
)

pytestmark = pytest.mark.usefixtures("cast")

LEGACY, SALARIES = "dataset:sales.legacy", "dataset:hr.salaries"
GHOST = ("user:dee", LEGACY, "WRITE")


def items(plan):
    return [item[1:] for item in items_of(plan)]


def add_ghost_grants():
    change_grants(
        grant=[
            ("group:operators", SALARIES, "READ"),
            ("user:ina", SALARIES, "ADMIN"),
        ]
    )
    delete_entity(SALARIES, generation="final")


def test_a_ghost_plan_revokes_grants_on_deleted_addresses_and_keeps_those_on_planned_ones():
    before = all_grants()
    plan = ghost_plan.create(author=COMMAND)
    assert (
        items(plan) == [GHOST]
        and plan.effect["revokes"] == 1
        and plan.recipe == {"namespace": "", "note": ""}
    )
    assert plan.title == "Revoke the grants on deleted addresses" and all_grants() == before
    apply_plan(plan)
    assert (
        before - all_grants() == {GHOST}
        and ("group:operators", "dataset:sales.forecast", "READ") in all_grants()
    )
    apply_plan(create_inverse(plan))
    assert all_grants() == before


def test_a_ghost_plan_for_a_namespace_revokes_the_leftover_grants_on_and_inside_it():
    add_ghost_grants()
    assert items(ghost_plan.create(author=COMMAND, namespace=parse_address("namespace:sales"))) == [GHOST]
    assert items(ghost_plan.create(author=COMMAND, namespace=parse_address("namespace:hr"))) == [
        ("user:ina", SALARIES, "ADMIN"),
        ("group:operators", SALARIES, "READ"),
    ]
    Entity.objects.filter(key="hr").update(state=State.DELETED)
    add_grant("user:out", "namespace:hr", "ADMIN")
    assert ("user:out", "namespace:hr", "ADMIN") in items(
        ghost_plan.create(author=COMMAND, namespace=parse_address("namespace:hr"))
    )


def test_the_note_counts_the_grants_that_the_analysis_leaves_out():
    add_ghost_grants()
    assert (
        ghost_plan.create(author=COMMAND)
        .recipe["note"]
        .startswith("1 of these grants is held by inactive users")
    )


def test_without_leftover_grants_no_plan_is_created():
    with pytest.raises(PlanError, match="no grant is on a deleted address in namespace:hr"):
        ghost_plan.create(author=COMMAND, namespace=parse_address("namespace:hr"))
    with pytest.raises(PlanError, match="is not a namespace"):
        ghost_plan.create(author=COMMAND, namespace=parse_address(LEGACY))
    assert not Plan.objects.exists()


def test_a_recreated_entity_makes_a_ghost_plan_stale():
    plan = ghost_plan.create(author=COMMAND)
    add_ghost_grants()
    assert invalidating_line(plan) is None
    recreate_entity(LEGACY, generation="final")
    before = database_state()
    with pytest.raises(StaleBase):
        apply_plan(plan)
    assert database_state() == before
    renewed = renew_plan(plan)
    assert {address for _, address, _ in items(renewed)} == {SALARIES} and renewed.renewal_of == plan
