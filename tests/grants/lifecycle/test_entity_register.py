"""Test registering and recreating entities, and the privileges of the creator."""

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.address import parse_address
from entities.models import Entity, State
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from grants.change_set import ChangeSet, Delete, Grant, Recreate, Register
from grants.changes import apply
from grants.changes.entities import describe_entity
from grants.errors import LifecycleError, NotAdministrator
from grants.journal import current_revision
from grants.lifecycle.forecast import lifecycle_forecast
from grants.models import Role, User
from grants.policies.catalogue import GENERATIONS
from tests.support.authors import (
    COMMAND,
    account,
    all_grants,
    author_with,
    database_state,
    entity_states,
    lines_after,
)
from tests.support.changes import add_grant, delete_entity, recreate_entity, register_entity
from tests.support.expected_generations import EXPECTED

pytestmark = pytest.mark.django_db

ORDERS = parse_address("dataset:sales.orders")


@pytest.fixture
def sales():
    User.objects.create(username="alice")
    return ensure_entities(states={parse_address("namespace:sales"): State.LIVE}).rows[
        parse_address("namespace:sales")
    ]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_creator_receives_the_privileges_of_the_generation(sales, generation):
    outcome = register_entity(ORDERS, creator="user:alice", generation=generation)
    received = EXPECTED[generation].creator_receives
    assert outcome.has_changed and entity_states()["dataset:sales.orders"] == "live"
    assert all_grants() == {("user:alice", "dataset:sales.orders", privilege) for privilege in received}
    detail = f"received as its creator ({generation})"
    assert lines_after(0) == [
        ("register", "", "dataset:sales.orders", "", ""),
        *(("grant", "user:alice", "dataset:sales.orders", p, detail) for p in received),
    ]
    assert (f"received {', '.join(Privilege)}" in outcome.sentence) == bool(received)
    assert outcome.revision == current_revision()


def test_the_active_generation_is_the_default(sales, settings):
    settings.DEFAULT_GENERATION = "core"
    register_entity(ORDERS, creator=account("alice"))
    assert len(all_grants()) == len(Privilege)


def test_the_creator_keeps_existing_grants(sales):
    add_grant("user:alice", ORDERS, Privilege.READ)
    register_entity(ORDERS, creator="user:alice", generation="core")
    assert ["READ", *(line[3] for line in lines_after(2) if line[0] == "grant")] == list(Privilege)
    assert len(all_grants()) == len(Privilege)


@pytest.mark.parametrize(
    "creator, message",
    [
        ("user:nobody", "user:nobody does not exist"),
        ("group:g", "group:g cannot create an entity: name a user"),
        ("alice", "`alice` is not a principal: write user:NAME, group:NAME or role:NAME"),
    ],
)
def test_an_invalid_creator_is_refused_even_if_creators_receive_nothing(sales, creator, message):
    before = database_state()
    with pytest.raises(ValueError, match=message):
        register_entity(ORDERS, creator=creator, generation="final")
    assert database_state() == before


def test_a_planned_entity_becomes_live_and_keeps_its_grants(sales):
    add_grant("user:alice", ORDERS, Privilege.READ)
    revision = current_revision()
    outcome = register_entity(ORDERS, description="by day")
    assert outcome.sentence == "dataset:sales.orders is live now; 1 grant on it will now apply"
    assert all_grants() == {("user:alice", "dataset:sales.orders", "READ")}
    assert lines_after(revision) == [
        ("register", "", "dataset:sales.orders", "", "it was planned"),
        ("describe", "", "dataset:sales.orders", "", "by day"),
    ]
    assert Entity.objects.get(key="sales.orders").description == "by day"


@pytest.mark.parametrize("change", [register_entity, recreate_entity])
def test_a_live_entity_is_not_changed_and_nothing_is_journaled(sales, change):
    register_entity(ORDERS, generation="core")
    before = database_state()
    outcome = change(
        author=COMMAND, address=ORDERS, description="other", creator="user:alice", generation="core"
    )
    assert (outcome.has_changed, outcome.sentence) == (
        False,
        "dataset:sales.orders is live already: nothing changed",
    )
    assert database_state() == before


def test_a_deleted_entity_is_recreated_and_not_registered(sales):
    add_grant("user:alice", ORDERS, Privilege.READ)
    register_entity(ORDERS)
    delete_entity(ORDERS, generation="final")
    with pytest.raises(LifecycleError, match="dataset:sales.orders was deleted: recreate it instead"):
        register_entity(ORDERS)
    revision = current_revision()
    outcome = recreate_entity(ORDERS, generation="final")
    assert outcome.sentence == "dataset:sales.orders is live now; 1 grant on it will now apply"
    assert lines_after(revision) == [("recreate", "", "dataset:sales.orders", "", "it was deleted")]
    assert entity_states()["dataset:sales.orders"] == "live"
    assert all_grants() == {("user:alice", "dataset:sales.orders", "READ")}


@pytest.mark.parametrize("state", [None, State.PLANNED])
def test_only_a_deleted_entity_can_be_recreated(sales, state):
    if state:
        ensure_entities(states={ORDERS: state})
    with pytest.raises(LifecycleError, match="dataset:sales.orders was never deleted: register it instead"):
        recreate_entity(ORDERS)


@pytest.mark.parametrize(
    "state, message",
    [
        (
            None,
            "application:sales.etl, which contains it, is not registered; register application:sales.etl first",
        ),
        (
            State.PLANNED,
            "application:sales.etl, which contains it, is only planned; register application:sales.etl first",
        ),
        (
            State.DELETED,
            "application:sales.etl, which contains it, was deleted; recreate application:sales.etl first",
        ),
    ],
)
def test_the_parent_must_be_live(sales, state, message):
    if state:
        ensure_entities(states={parse_address("application:sales.etl"): state})
    before = database_state()
    program = parse_address("program:sales.etl.spark.daily")
    with pytest.raises(LifecycleError) as refused:
        register_entity(program)
    assert str(refused.value) == f"program:sales.etl.spark.daily cannot be registered: {message}"
    assert lifecycle_forecast(program, "register").refusal == str(refused.value)
    assert database_state() == before


@pytest.mark.parametrize("state", [None, State.PLANNED, State.LIVE])
def test_the_instance_becomes_live_with_the_first_entity_in_it(state):
    if state:
        ensure_entities(states={parse_address("instance:cdap"): state})
    register_entity("namespace:sales")
    assert entity_states() == {"instance:cdap": "live", "namespace:sales": "live"}
    registered = [entity for action, _, entity, *_ in lines_after(0) if action == "register"]
    assert registered == (
        ["namespace:sales"] if state == State.LIVE else ["instance:cdap", "namespace:sales"]
    )


def test_only_the_instance_of_the_console_can_be_registered():
    assert register_entity("instance:cdap").has_changed
    with pytest.raises(LifecycleError, match="`instance:other` is not the instance of this console"):
        register_entity("instance:other")
    assert entity_states() == {"instance:cdap": "live"}


def test_a_description_is_changed_once_and_journaled(sales):
    outcome = describe_entity(
        author=COMMAND, address=parse_address("namespace:sales"), description="All that sells"
    )
    assert outcome.has_changed and lines_after(0) == [
        ("describe", "", "namespace:sales", "", "All that sells")
    ]
    assert not describe_entity(
        author=COMMAND, address=parse_address("namespace:sales"), description="All that sells"
    ).has_changed
    assert current_revision() == 1


@pytest.mark.parametrize("text", ["\0", "\ud800", "d" * 10_001])
def test_a_description_that_cannot_be_stored_is_refused(sales, text):
    for change in (describe_entity, register_entity):
        with pytest.raises(LifecycleError, match="the description cannot be stored"):
            change(author=COMMAND, address=ORDERS, description=text)


def test_an_unregistered_address_cannot_be_described():
    with pytest.raises(LifecycleError, match="dataset:sales.orders is not registered: register it first"):
        describe_entity(author=COMMAND, address=ORDERS, description="x")


@pytest.mark.parametrize(
    "role, active", [(Role.ORDINARY, True), (Role.AUDITOR, True), (Role.ADMINISTRATOR, False)]
)
def test_only_an_active_administrator_can_change_entities(sales, role, active):
    author = author_with(role, active=active)
    ensure_entities(states={parse_address("dataset:sales.deleted"): State.DELETED})
    before = database_state()
    for change, given in (
        (register_entity, {"address": ORDERS}),
        (recreate_entity, {"address": parse_address("dataset:sales.deleted")}),
        (delete_entity, {"address": parse_address("namespace:sales")}),
        (describe_entity, {"address": parse_address("namespace:sales"), "description": "x"}),
    ):
        with pytest.raises(NotAdministrator, match=f"`{author.name}` is not an active administrator"):
            change(author=author, **given)
    assert database_state() == before


def test_the_forecast_of_recreating_lists_the_holders(sales):
    Group.objects.create(name="analysts")
    for principal, privilege in (
        ("user:alice", "ADMIN"),
        ("user:alice", "READ"),
        ("group:analysts", "WRITE"),
    ):
        add_grant(principal, ORDERS, Privilege[privilege])
    ensure_entities(states={ORDERS: State.DELETED})
    Entity.objects.filter(key="sales.orders").update(state=State.DELETED)
    forecast = lifecycle_forecast(ORDERS, "recreate", "core")
    assert forecast.applying == (("group:analysts", ("WRITE",), ""), ("user:alice", ("READ", "ADMIN"), ""))
    assert (forecast.applying_grant_count, forecast.entities, forecast.refusal) == (3, {"dataset": 1}, "")
    assert list(forecast.creator_receives) == list(EXPECTED["core"].creator_receives)


def test_a_forecast_supports_three_verbs():
    with pytest.raises(ValueError, match="`destroy` is not one of register, delete, recreate"):
        lifecycle_forecast(ORDERS, "destroy")


def test_a_change_set_registers_many_entities_with_as_many_statements_as_one(
    sales, django_assert_max_num_queries
):
    addresses = [parse_address(f"dataset:sales.d{number}") for number in range(200)]
    apply(ChangeSet.of(Register(parse_address("stream:sales.first"))), author=COMMAND)
    with CaptureQueriesContext(connection) as one:
        apply(ChangeSet.of(Register(parse_address("stream:sales.clicks"))), author=COMMAND)
    before = current_revision()
    with django_assert_max_num_queries(len(one)):
        outcome = apply(ChangeSet(tuple(map(Register, addresses))), author=COMMAND)
    assert outcome.sentence == "200 entities are live now"
    assert [line[0] for line in lines_after(before)] == ["register"] * 200
    assert all(entity_states()[str(address)] == "live" for address in addresses)


def test_a_change_set_registers_a_container_before_its_content_and_grants_on_both(sales):
    changes = [
        Register(parse_address("namespace:hr")),
        Register(parse_address("dataset:hr.salaries")),
        Grant("user:alice", parse_address("dataset:hr.salaries"), Privilege.READ),
    ]
    before = current_revision()
    apply(ChangeSet(tuple(changes)), author=COMMAND)
    assert [line[0] for line in lines_after(before)] == ["register", "register", "grant"]
    with pytest.raises(LifecycleError, match="namespace:eu, which contains it, is not registered"):
        apply(ChangeSet.of(Register(parse_address("dataset:eu.x")), changes[0]), author=COMMAND)


def test_a_change_set_deletes_and_recreates_an_entity_in_this_order(sales):
    register_entity(ORDERS)
    apply(ChangeSet.of(Delete(ORDERS), Recreate(ORDERS)), author=COMMAND)
    assert entity_states()[str(ORDERS)] == "live"


def test_a_change_set_recreates_a_namespace_with_some_of_its_contents_after_it_deleted_it(sales):
    namespace, new = parse_address("namespace:sales"), parse_address("dataset:sales.new")
    for address in (ORDERS, "dataset:sales.old"):
        register_entity(address)
    changes = [Delete(namespace), Recreate(namespace), Recreate(ORDERS), Register(new)]
    before = current_revision()
    apply(ChangeSet(tuple(changes)), author=COMMAND)
    states = entity_states()
    assert [states[str(address)] for address in (namespace, ORDERS, new)] == ["live"] * 3
    assert states["dataset:sales.old"] == "deleted"
    assert [line[0] for line in lines_after(before)] == ["delete"] * 3 + ["recreate", "recreate", "register"]
