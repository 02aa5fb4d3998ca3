"""The entities that a run counts as stranded are those that the evaluator of small changes counts, in chunks
of any size.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.models import State
from entities.vocabulary import Privilege
from grants.change_set import Deactivate, Revoke
from grants.effects import strandings
from grants.effects.effect import effect_of
from grants.effects.strandings import strandings_of
from grants.policies.catalogue import GENERATIONS
from grants.policies.principals import group_text
from tests.support.random_tenants import random_tenant, store_tenant

pytestmark = pytest.mark.django_db


def address_reads(queries: CaptureQueriesContext) -> int:
    """Return the number of statements that read entities with their columns."""
    return sum(query["sql"].startswith('SELECT "entities_entity"."id"') for query in queries)


@pytest.mark.parametrize("number", [3, 17, 44])
def test_the_result_does_not_depend_on_the_chunks_and_no_chunk_reads_the_addresses_again(monkeypatch, number):
    tenant = random_tenant(number, has_patterns=True)
    store_tenant(tenant)
    live = sorted((address for address, state in tenant.entities.items() if state == State.LIVE), key=str)
    changes = [
        *(Deactivate(user) for user in sorted(tenant.users)[:4]),
        *(
            Revoke(group_text(group), address, Privilege.ADMIN)
            for group in sorted(tenant.groups)
            for address in live
        ),
    ]
    expected = effect_of(changes, GENERATIONS["final"]).strandings
    assert len(expected.entities) > 2
    with CaptureQueriesContext(connection) as once:
        assert strandings_of(changes, len(live)) == expected
    monkeypatch.setattr(strandings, "ENTITIES_PER_CHUNK", 1)
    with CaptureQueriesContext(connection) as in_chunks:
        assert strandings_of(changes, 2) == expected._replace(entities=list(expected.entities[:2]))
    assert address_reads(in_chunks) == address_reads(once) > 0
