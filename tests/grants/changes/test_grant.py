"""Test granting one privilege."""

import pytest
from django.contrib.auth.models import Group

from entities.address import parse_address
from entities.models import State
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from grants.errors import GrantError, NotAdministrator
from grants.evaluation.engine import check
from grants.journal import Author, current_revision
from grants.models import GroupGrant, JournalLine, Role, User, UserGrant
from grants.policies.question import Question
from tests.support.authors import (
    administrator,
    all_grants,
    author_with,
    database_state,
    entity_states,
    lines_after,
)
from tests.support.changes import add_grant

pytestmark = pytest.mark.django_db
ORDERS = parse_address("dataset:sales.orders")
READ = Privilege.READ


@pytest.fixture(autouse=True)
def principals():
    User.objects.create(username="alice")
    User.objects.create(username="ina", is_active=False)
    Group.objects.create(name="analysts")


@pytest.fixture
def orders():
    return ensure_entities(states={ORDERS: State.LIVE}).rows[ORDERS]


def test_a_grant_records_author_time_and_reason_and_changes_the_decision(orders):
    question = Question("user", "alice", "read", ORDERS, "final")
    assert not check(question).is_permitted
    author = administrator()
    outcome = add_grant("user:alice", ORDERS, READ, author=author)
    assert (outcome.has_changed, outcome.sentence) == (True, "granted 1")
    assert [str(item) for item in outcome.granted] == ["READ on dataset:sales.orders for user:alice"]
    assert check(question).is_permitted
    grant, line = UserGrant.objects.get(), JournalLine.objects.get()
    assert (grant.granted_by_id, grant.reason, grant.privilege) == (author.user_id, "quarterly close", READ)
    assert abs((grant.granted_at - line.at).total_seconds()) < 5
    assert (line.revision, line.actor, line.reason, line.request_id) == (
        1,
        author.name,
        "quarterly close",
        "request-1",
    )
    assert lines_after(0) == [("grant", "user:alice", "dataset:sales.orders", "READ", "")]
    assert outcome.revision == current_revision() == 1


@pytest.mark.parametrize("privilege", Privilege)
def test_each_privilege_is_a_separate_grant(orders, privilege):
    add_grant("user:alice", ORDERS, privilege)
    assert all_grants() == {("user:alice", "dataset:sales.orders", privilege)}


def test_an_existing_grant_is_skipped_and_reported(orders):
    add_grant("user:alice", ORDERS, READ)
    before = database_state()
    outcome = add_grant("user:alice", ORDERS, READ)
    assert (outcome.has_changed, outcome.sentence, outcome.revision) == (False, "nothing changed", 1)
    assert outcome.unchanged == ("user:alice already holds READ on dataset:sales.orders: nothing changed",)
    assert database_state() == before


def test_a_member_can_receive_a_privilege_that_its_group_already_has(orders):
    Group.objects.get().user_set.add(User.objects.get(username="alice"))
    add_grant("group:analysts", ORDERS, READ)
    assert add_grant("user:alice", ORDERS, READ).has_changed
    assert (UserGrant.objects.count(), GroupGrant.objects.count()) == (1, 1)


def test_a_principal_is_given_as_text_or_as_an_instance(orders):
    for principal, privilege in (
        (User.objects.get(username="alice"), "READ"),
        (Group.objects.get(), "WRITE"),
    ):
        add_grant(principal, ORDERS, Privilege[privilege])
    assert all_grants() == {
        ("user:alice", "dataset:sales.orders", "READ"),
        ("group:analysts", "dataset:sales.orders", "WRITE"),
    }


def test_granting_on_an_unregistered_address_registers_it_and_its_containers_as_planned():
    outcome = add_grant("user:alice", "program:sales.etl.spark.p", READ)
    assert (len(outcome.granted), len(outcome.planned)) == (1, 4)
    assert outcome.sentence.startswith("granted 1; 4 addresses are only planned: ")
    assert set(entity_states().values()) == {"planned"}
    addresses = ["instance:cdap", "namespace:sales", "application:sales.etl", "program:sales.etl.spark.p"]
    assert lines_after(0) == [
        *(("plan", "", address, "", "") for address in addresses),
        ("grant", "user:alice", "program:sales.etl.spark.p", "READ", ""),
    ]


@pytest.mark.parametrize("state", State.values)
def test_a_registered_address_keeps_its_state(state):
    ensure_entities(states={ORDERS: state})
    add_grant("user:alice", ORDERS, READ)
    assert entity_states()["dataset:sales.orders"] == state
    assert [line[0] for line in lines_after(0)] == ["grant"]


def test_an_inactive_user_can_receive_grants_but_is_denied_until_active(orders):
    add_grant("user:ina", ORDERS, READ)
    question = Question("user", "ina", "read", ORDERS, "final")
    assert not check(question).is_permitted
    User.objects.filter(username="ina").update(is_active=True)
    assert check(question).is_permitted


def test_an_account_becomes_a_principal_with_its_first_grant(orders):
    User.objects.create(username="root", is_principal=False)
    add_grant("user:root", ORDERS, READ)
    assert lines_after(0) == [
        ("principal-add", "user:root", "", "", ""),
        ("grant", "user:root", "dataset:sales.orders", "READ", ""),
    ]
    assert check(Question("user", "root", "read", ORDERS, "final")).is_permitted


@pytest.mark.parametrize(
    "principal, privilege, address, message",
    [
        ("user:nobody", READ, ORDERS, "user:nobody does not exist: add it first, or correct the name"),
        ("group:alice", READ, ORDERS, "group:alice does not exist"),
        ("user:Alice", READ, ORDERS, "user:Alice does not exist"),
        ("alice", READ, ORDERS, "`alice` is not a principal: write user:NAME or group:NAME"),
        ("role:alice", READ, ORDERS, "`role:alice` is not a principal"),
        ("user:", READ, ORDERS, "the name is empty"),
        ("user:a\0", READ, ORDERS, "holds a control character"),
        (None, READ, ORDERS, "`None` is not a principal"),
        (
            "user:alice",
            READ,
            parse_address("instance:other"),
            "`instance:other` is not the instance of this console",
        ),
    ],
)
def test_an_invalid_grant_is_refused_and_nothing_is_written(orders, principal, privilege, address, message):
    before = database_state()
    with pytest.raises(GrantError, match=message):
        add_grant(principal, address, privilege)
    assert database_state() == before


@pytest.mark.parametrize("reason", ["\0", "\ud800", "r" * 2_001])
def test_a_reason_that_cannot_be_stored_is_refused(orders, reason):
    with pytest.raises(GrantError, match="the reason cannot be stored"):
        add_grant("user:alice", ORDERS, READ, author=Author("x", reason=reason))
    assert all_grants() == set()


@pytest.mark.parametrize(
    "role, active", [(Role.ORDINARY, True), (Role.AUDITOR, True), (Role.ADMINISTRATOR, False)]
)
def test_only_an_active_administrator_can_grant(orders, role, active):
    author = author_with(role, active=active)
    before = database_state()
    with pytest.raises(
        NotAdministrator, match=f"`{author.name}` is not an active administrator of this console"
    ):
        add_grant("user:alice", ORDERS, READ, author=author)
    assert database_state() == before


def test_a_superuser_without_the_administrator_role_cannot_grant(orders):
    author = author_with(Role.ORDINARY)
    User.objects.filter(pk=author.user_id).update(is_superuser=True, is_staff=True)
    with pytest.raises(NotAdministrator):
        add_grant("user:alice", ORDERS, READ, author=author)


def test_a_deleted_account_cannot_grant(orders):
    with pytest.raises(NotAdministrator):
        add_grant("user:alice", ORDERS, READ, author=Author("gone", user_id=4_000_000))
