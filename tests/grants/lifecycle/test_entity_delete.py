"""Test the deletion of entities with those inside, and its effect on grants in each generation."""

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.address import parse_address
from entities.models import Entity, State
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from grants.change_set import ChangeSet, Delete
from grants.changes import apply
from grants.errors import LifecycleError
from grants.journal import LINES_PER_BATCH, current_revision, first_break
from grants.lifecycle.forecast import lifecycle_forecast
from grants.models import GroupGrant, User, UserGrant
from grants.policies.catalogue import GENERATIONS
from tests.support.authors import (
    COMMAND,
    account,
    all_grants,
    database_state,
    entity_states,
    is_permitted,
    lines_after,
)
from tests.support.changes import active, change_grants, delete_entity, recreate_entity
from tests.support.expected_generations import EXPECTED

pytestmark = pytest.mark.django_db

LIVE = [
    "namespace:sales",
    "application:sales.orders",
    "program:sales.orders.spark.daily",
    "dataset:sales.day",
    "stream:sales.day",
]
ON_LIVE = {
    ("user:alice", "namespace:sales", "ADMIN"),
    ("user:alice", "program:sales.orders.spark.daily", "ADMIN"),
    ("group:analysts", "program:sales.orders.spark.daily", "EXECUTE"),
    ("group:analysts", "dataset:sales.day", "READ"),
}
ELSEWHERE = {
    ("user:alice", "dataset:sales.planned", "ADMIN"),
    ("user:alice", "dataset:sales.deleted", "READ"),
    ("group:analysts", "dataset:sales2.day", "READ"),
    ("user:alice", "instance:cdap", "ADMIN"),
}


@pytest.fixture
def sales():
    User.objects.create(username="alice")
    Group.objects.create(name="analysts")
    ensure_entities(states={parse_address(address): State.LIVE for address in [*LIVE, "dataset:sales2.day"]})
    ensure_entities(
        states={
            parse_address("dataset:sales.planned"): State.PLANNED,
            parse_address("dataset:sales.deleted"): State.DELETED,
        }
    )
    change_grants(grant=[(p, a, Privilege[q]) for p, a, q in sorted(ON_LIVE | ELSEWHERE)])


@pytest.mark.parametrize("generation", GENERATIONS)
def test_deleting_a_namespace_deletes_live_entities_inside_and_handles_grants_by_generation(
    sales, generation
):
    revision, before = current_revision(), entity_states()
    outcome = delete_entity("namespace:sales", generation=generation)
    assert entity_states() == before | dict.fromkeys(LIVE, "deleted")
    removed = ON_LIVE if EXPECTED[generation].deleting_removes_grants else set()
    assert all_grants() == (ON_LIVE | ELSEWHERE) - removed
    lines = lines_after(revision)
    assert sorted(entity for action, _, entity, *_ in lines if action == "delete") == sorted(LIVE)
    assert {
        detail for action, _, entity, _, detail in lines if action == "delete" and entity != "namespace:sales"
    } == {"with namespace:sales"}
    revokes = [line for line in lines if line[0] == "revoke"]
    assert {line[1:4] for line in revokes} == removed and len(revokes) == len(removed)
    assert {line[4] for line in revokes} <= {"went with the deletion of namespace:sales"}
    assert outcome.revision == revision + len(lines) == current_revision()
    tail = (
        "revoked 4 grants on it" if removed else "kept 4 grants, which will apply if the entity is recreated"
    )
    assert outcome.sentence == f"namespace:sales was deleted with 4 entities in it; {tail}"
    assert first_break() is None


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("address", ["namespace:sales", "application:sales.orders", "dataset:sales.day"])
def test_the_forecast_of_a_deletion_matches_the_deletion(sales, generation, address):
    forecast = lifecycle_forecast(parse_address(address), "delete", generation)
    before, grants = entity_states(), all_grants()
    delete_entity(address, generation=generation)
    gone = [address for address, state in entity_states().items() if state != before[address]]
    assert forecast.entities == {
        kind: sum(address.startswith(f"{kind}:") for address in gone)
        for kind in {address.partition(":")[0] for address in gone}
    }
    assert forecast.entities_total == len(gone)
    assert forecast.grants_removed == len(grants) - len(all_grants())
    assert forecast.grants_kept == len([grant for grant in all_grants() if grant[1] in gone])
    assert forecast.planned_inside == (1 if address == "namespace:sales" else 0)


def test_deleting_an_application_deletes_only_its_programs(sales):
    delete_entity("application:sales.orders", generation="core")
    assert {address for address, state in entity_states().items() if state == "deleted"} == {
        "application:sales.orders",
        "program:sales.orders.spark.daily",
        "dataset:sales.deleted",
    }


@pytest.mark.parametrize("generation", GENERATIONS)
def test_grants_apply_again_after_recreating_if_the_deletion_kept_them(sales, generation):
    program = "program:sales.orders.spark.daily"
    Group.objects.get(name="analysts").user_set.add(account("alice"))
    assert is_permitted("alice", "EXECUTE", program, generation)
    delete_entity(program, generation=generation)
    recreate_entity(program, generation=generation)
    assert is_permitted("alice", "EXECUTE", program, generation) is not (
        EXPECTED[generation].deleting_removes_grants
    )


def test_recreating_a_namespace_does_not_recreate_the_entities_inside(sales):
    delete_entity("namespace:sales")
    recreate_entity("namespace:sales")
    assert {address for address, state in entity_states().items() if state == "deleted"} == {
        *LIVE[1:],
        "dataset:sales.deleted",
    }


@pytest.mark.parametrize(
    "address, message",
    [
        ("instance:cdap", "instance:cdap cannot be deleted: it is the platform itself"),
        ("instance:other", "`instance:other` is not the instance of this console"),
        ("dataset:sales.none", "dataset:sales.none is not registered: there is nothing to delete"),
        (
            "dataset:sales.planned",
            "dataset:sales.planned is planned and does not exist yet: there is nothing to delete",
        ),
        ("dataset:sales.deleted", "dataset:sales.deleted was deleted already"),
    ],
)
def test_an_entity_that_is_not_live_cannot_be_deleted_and_the_forecast_agrees(sales, address, message):
    before = database_state()
    with pytest.raises(LifecycleError, match=message) as refused:
        delete_entity(address, generation="core")
    assert database_state() == before
    forecast = lifecycle_forecast(parse_address(address), "delete", "core")
    assert (forecast.refusal, forecast.entities_total) == (str(refused.value), 0)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_deletion_that_fails_halfway_changes_nothing(sales, generation, monkeypatch):
    before = database_state()
    monkeypatch.setattr("grants.changes.entities._deletion_sentence", lambda forecast: 1 / 0)
    monkeypatch.setattr("django.db.models.QuerySet.update", lambda *args, **given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        delete_entity("namespace:sales", generation=generation)
    assert database_state() == before


@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_number_of_statements_does_not_grow_with_the_deleted_entities(sales, generation):
    def statements(namespace, count):
        rows = ensure_entities(
            states={parse_address(f"dataset:{namespace}.d{n}"): State.LIVE for n in range(count)}
        ).rows
        alice, permission = account("alice"), UserGrant.objects.first().permission_id
        moment = UserGrant.objects.first().granted_at
        UserGrant.objects.bulk_create(
            UserGrant(user=alice, content_object=row, permission_id=permission, granted_at=moment)
            for address, row in rows.items()
            if address.kind == "dataset"
        )
        with active(generation), CaptureQueriesContext(connection) as captured:
            delete_entity(f"namespace:{namespace}")
        assert not Entity.objects.filter(namespace__key=namespace, state=State.LIVE).exists()
        return len(captured)

    few, many = statements("few", 2), statements("many", LINES_PER_BATCH // 2)
    # Journal lines are written in batches.
    assert many - few <= 2
    assert few <= 25


def test_a_deletion_larger_than_a_journal_batch_names_every_entity_once(sales):
    ensure_entities(
        states={parse_address(f"dataset:big.d{n}"): State.LIVE for n in range(LINES_PER_BATCH + 10)}
    )
    revision = current_revision()
    delete_entity("namespace:big")
    deleted = [entity for _, _, entity, *_ in lines_after(revision)]
    assert len(deleted) == len(set(deleted)) == LINES_PER_BATCH + 11
    assert first_break() is None


def test_ghost_grants_of_an_earlier_deletion_remain_where_deleting_removes_grants(sales):
    delete_entity("dataset:sales.day", generation="final")
    delete_entity("namespace:sales", generation="core")
    assert ("group:analysts", "dataset:sales.day", "READ") in all_grants()
    assert GroupGrant.objects.count() == 2


def test_deleting_a_kerberos_principal_changes_nothing_else(sales):
    ensure_entities(states={parse_address("kerberosprincipal:etl@REALM"): State.LIVE})
    before = entity_states()
    delete_entity("kerberosprincipal:etl@REALM", generation="existing")
    assert entity_states() == before | {"kerberosprincipal:etl@REALM": "deleted"}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_change_set_deletes_many_entities_like_each_of_them(sales, generation):
    addresses = [parse_address(f"dataset:sales.d{number}") for number in range(100)]
    ensure_entities(states=dict.fromkeys([*addresses, parse_address("dataset:sales.one")], State.LIVE))
    change_grants(grant=[("user:alice", address, Privilege.READ) for address in addresses])
    deletions = [Delete(parse_address(address)) for address in ("dataset:sales.day", "stream:sales.day")]
    with active(generation):
        with CaptureQueriesContext(connection) as one:
            delete_entity("dataset:sales.one")
        revision, before = current_revision(), entity_states()
        with CaptureQueriesContext(connection) as many:
            outcome = apply(ChangeSet((*map(Delete, addresses), *deletions)), author=COMMAND)
    assert len(many) <= len(one) + 4 and outcome.sentence == "102 entities were deleted"
    deleted = {str(address) for address in addresses} | {"dataset:sales.day", "stream:sales.day"}
    assert entity_states() == before | dict.fromkeys(deleted, "deleted")
    is_removed = EXPECTED[generation].deleting_removes_grants
    kept = ON_LIVE | ELSEWHERE | {("user:alice", str(address), "READ") for address in addresses}
    assert all_grants() == {grant for grant in kept if not (is_removed and grant[1] in deleted)}
    lines = lines_after(revision)
    assert {entity for action, _, entity, *_ in lines if action == "delete"} == deleted
    assert len([line for line in lines if line[0] == "revoke"]) == (101 if is_removed else 0)
    assert first_break() is None


def test_of_many_deletions_one_of_an_entity_that_is_not_live_refuses_all(sales):
    before = entity_states()
    addresses = map(parse_address, ("dataset:sales.day", "dataset:sales.deleted"))
    with pytest.raises(LifecycleError, match="dataset:sales.deleted was deleted already"):
        apply(ChangeSet(tuple(map(Delete, addresses))), author=COMMAND)
    assert entity_states() == before
