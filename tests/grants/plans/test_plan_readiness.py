"""Test readiness plans: their grants are enough to delete a namespace, and none of them is superfluous."""

import dataclasses

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from entities.address import Address, parse_address
from entities.models import State
from entities.services import ensure_entities
from grants.errors import GrantError
from grants.evaluation.engine import check
from grants.lifecycle.readiness import active_user_by_name, missing_grants_to_delete
from grants.plans.sources.readiness import readiness_plan
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import Question
from tests.support.authors import COMMAND, account, is_permitted
from tests.support.changes import apply_plan
from tests.support.random_tenants import random_tenant, reference_is_permitted, seeds, store_tenant

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("seed", seeds(range(6)))
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_readiness_plan_equals_the_explained_missing_grants_and_is_minimal(seed, generation):
    tenant = random_tenant(seed)
    store_tenant(tenant)
    for namespace in [
        a for a, state in tenant.entities.items() if a.kind == "namespace" and state == State.LIVE
    ]:
        for user in [name for name, (active, principal) in tenant.users.items() if active and principal]:
            question = Question("user", user, "delete", namespace, generation)
            decision = check(question)
            missing = missing_grants_to_delete(
                namespace, active_user_by_name(user), GENERATIONS[generation], max_grants=1_000
            )
            assert sorted(missing, key=str) == sorted(decision.missing_grants or (), key=str)
            if decision.is_permitted:
                with pytest.raises(GrantError, match="can already delete"):
                    readiness_plan.create(
                        author=COMMAND, namespace=namespace, user=user, generation=generation
                    )
                continue
            for principal in tenant.holders("user", user):
                assert_is_enough_and_minimal(tenant, question, principal)


def assert_is_enough_and_minimal(tenant, question, principal):
    plan = readiness_plan.create(
        author=COMMAND,
        namespace=question.target,
        user=question.subject,
        generation=question.generation,
        principal=principal,
    )
    items = {(row.principal, row.address, row.privilege) for row in plan.items.all()}
    assert plan.effect["grants"] == len(items) and plan.effect["already"] == 0
    assert reference_is_permitted(dataclasses.replace(tenant, grants=tenant.grants | items), question)
    for item in items:
        assert not reference_is_permitted(
            dataclasses.replace(tenant, grants=tenant.grants | items - {item}), question
        )
    with transaction.atomic():
        apply_plan(plan)
        assert check(question).is_permitted
        transaction.set_rollback(True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"user": "ina"}, "is inactive"),
        ({"user": "nobody"}, "user:nobody does not exist"),
        ({"user": "a\0b"}, "does not exist"),
        ({"namespace": "namespace:nowhere"}, "is not registered"),
        ({"namespace": "dataset:sales.orders"}, "is not a namespace"),
        ({"principal": "group:operators"}, "user:dee is not in group:operators"),
        ({"principal": "user:ned"}, "give user:dee nothing"),
        ({"principal": "dee"}, "is not a principal"),
        ({"generation": "newest"}, ", ".join(GENERATIONS)),
    ],
)
def test_an_invalid_readiness_plan_is_refused_with_a_reason(cast, arguments, words):
    arguments = {"namespace": "namespace:sales", "user": "dee", "generation": "final"} | arguments
    with pytest.raises(ValueError, match=words):
        readiness_plan.create(
            author=COMMAND, **arguments | {"namespace": parse_address(arguments["namespace"])}
        )


def test_a_group_receives_only_the_grants_that_its_member_lacks(cast):
    plan = readiness_plan.create(
        author=COMMAND,
        namespace=parse_address("namespace:sales"),
        user="grp",
        generation="final",
        principal="group:operators",
    )
    assert {row.principal for row in plan.items.all()} == {"group:operators"} and plan.items.count() == 6
    assert plan.title == "Let user:grp delete namespace:sales through group:operators (final)"


def test_an_account_that_was_not_a_principal_can_delete_the_namespace_afterwards(cast):
    plan = readiness_plan.create(
        author=COMMAND, namespace=parse_address("namespace:hr"), user="ada", generation="final"
    )
    apply_plan(plan)
    assert account("ada").is_principal
    assert is_permitted("ada", "delete", "namespace:hr")


def test_the_number_of_statements_grows_by_batch_not_by_entity(cast):
    def statements():
        with CaptureQueriesContext(connection) as captured:
            plan = readiness_plan.create(
                author=COMMAND, namespace=parse_address("namespace:sales"), user="out", generation="final"
            )
        return plan.items.count(), len(captured)

    small = statements()
    ensure_entities(states={Address("dataset", f"sales.d{number:04}"): State.LIVE for number in range(1_500)})
    large = statements()
    assert large[0] == small[0] + 1_500 and large[1] <= small[1] + 20
