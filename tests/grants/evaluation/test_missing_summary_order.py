"""Test that a summary lists no entities of a namespace with a similar name, on every database."""

import pytest

from entities.address import parse_address
from entities.models import State
from grants.evaluation.engine import check, check_summary
from grants.policies.question import Question
from tests.grants.evaluation.test_missing_summary import assert_is_summary
from tests.support.random_tenants import Tenant, store_tenant


@pytest.mark.django_db
@pytest.mark.parametrize("neighbour", ["NS1", "Ns1", "ns_1", "ns10"])
def test_a_summary_lists_no_entities_of_a_similar_namespace(neighbour):
    tenant = Tenant(users={"ann": (True, True)})
    for namespace in ("ns1", neighbour):
        addresses = [f"namespace:{namespace}", *(f"dataset:{namespace}.d{number}" for number in range(3))]
        tenant.entities |= {parse_address(address): State.LIVE for address in addresses}
    store_tenant(tenant)
    question = Question("user", "ann", "delete", parse_address("namespace:ns1"), "final")
    summary, full = check_summary(question, 2), check(question)
    assert not full.is_permitted and len(full.missing_grants) == 4
    assert_is_summary(summary, full, 2)
