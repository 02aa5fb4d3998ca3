"""Test granting one privilege."""

import pytest
from django.contrib.auth.models import Group

from entities.address import parse_address
from entities.models import State
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from grants.changes.services import change_grants
from grants.errors import GrantError, NotAdministrator
from grants.evaluation.engine import check
from grants.journal import Author, current_revision
from grants.models import GroupGrant, JournalLine, Role, User, UserGrant
from grants.policies.question import Question
from tests.support.authors import COMMAND, administrator, all_grants, author_with, database_state, entity_states, lines_after

pytestmark = pytest.mark.django_db
ORDERS = parse_address("dataset:sales.orders")
READ = Privilege.READ


@pytest.fixture(autouse=True)
def people():
    User.objects.create(username="alice")
    User.objects.create(username="ina", is_active=False)
    Group.objects.create(name="analysts")


@pytest.fixture
def orders():
    return ensure_entities(states={ORDERS: State.LIVE}).rows[ORDERS]


def test_a_grant_is_held_with_who_when_and_why_and_turns_the_decision(orders):
    question = Question("user", "alice", "read", ORDERS, "final")
    assert not check(question).allowed
    author = administrator()
    outcome = change_grants(author=author, grant=[("user:alice", ORDERS, READ)])
    assert (outcome.has_changed, outcome.sentence) == (True, "granted 1")
    assert [str(item) for item in outcome.granted] == ["READ on dataset:sales.orders for user:alice"]
    assert check(question).allowed
    grant, line = UserGrant.objects.get(), JournalLine.objects.get()
    assert (grant.granted_by_id, grant.reason, grant.privilege) == (author.user_id, "quarterly close", READ)
    assert abs((grant.granted_at - line.at).total_seconds()) < 5
    assert (line.revision, line.actor, line.reason, line.request_id) == (1, author.name, "quarterly close", "request-1")
    assert lines_after(0) == [("grant", "user:alice", "dataset:sales.orders", "READ", "")]
    assert outcome.revision == current_revision() == 1


@pytest.mark.parametrize("privilege", Privilege)
def test_each_privilege_is_its_own_grant(orders, privilege):
    change_grants(author=COMMAND, grant=[("user:alice", ORDERS, privilege)])
    assert all_grants() == {("user:alice", "dataset:sales.orders", privilege)}


def test_granting_what_is_held_changes_nothing_and_says_so(orders):
    change_grants(author=COMMAND, grant=[("user:alice", ORDERS, READ)])
    before = database_state()
    outcome = change_grants(author=COMMAND, grant=[("user:alice", ORDERS, READ)])
    assert (outcome.has_changed, outcome.sentence, outcome.revision) == (False, "nothing changed", 1)
    assert outcome.unchanged == ("user:alice already holds READ on dataset:sales.orders: nothing changed",)
    assert database_state() == before


def test_what_is_held_through_a_group_can_be_granted_to_its_member_too(orders):
    Group.objects.get().user_set.add(User.objects.get(username="alice"))
    change_grants(author=COMMAND, grant=[("group:analysts", ORDERS, READ)])
    assert change_grants(author=COMMAND, grant=[("user:alice", ORDERS, READ)]).has_changed
    assert (UserGrant.objects.count(), GroupGrant.objects.count()) == (1, 1)


def test_a_principal_is_a_text_or_the_row_itself(orders):
    for principal, privilege in ((User.objects.get(username="alice"), "READ"), (Group.objects.get(), "WRITE")):
        change_grants(author=COMMAND, grant=[(principal, ORDERS, Privilege[privilege])])
    assert all_grants() == {("user:alice", "dataset:sales.orders", "READ"), ("group:analysts", "dataset:sales.orders", "WRITE")}


def test_granting_on_an_unregistered_address_plans_it_and_what_contains_it():
    outcome = change_grants(author=COMMAND, grant=[("user:alice", parse_address("program:sales.etl.spark.p"), READ)])
    assert (len(outcome.granted), len(outcome.planned)) == (1, 4)
    assert outcome.sentence.startswith("granted 1; 4 addresses are only planned: ")
    assert set(entity_states().values()) == {"planned"}
    places = ["instance:cdap", "namespace:sales", "application:sales.etl", "program:sales.etl.spark.p"]
    assert lines_after(0) == [*(("plan", "", place, "", "") for place in places),
                              ("grant", "user:alice", "program:sales.etl.spark.p", "READ", "")]


@pytest.mark.parametrize("state", State.values)
def test_a_registered_address_keeps_its_state(state):
    ensure_entities(states={ORDERS: state})
    change_grants(author=COMMAND, grant=[("user:alice", ORDERS, READ)])
    assert entity_states()["dataset:sales.orders"] == state
    assert [line[0] for line in lines_after(0)] == ["grant"]


def test_an_inactive_user_can_be_granted_and_is_denied_until_active(orders):
    change_grants(author=COMMAND, grant=[("user:ina", ORDERS, READ)])
    question = Question("user", "ina", "read", ORDERS, "final")
    assert not check(question).allowed
    User.objects.filter(username="ina").update(is_active=True)
    assert check(question).allowed


def test_an_account_of_the_console_becomes_a_principal_when_granted(orders):
    User.objects.create(username="root", is_principal=False)
    change_grants(author=COMMAND, grant=[("user:root", ORDERS, READ)])
    assert lines_after(0) == [("principal-add", "user:root", "", "", ""),
                              ("grant", "user:root", "dataset:sales.orders", "READ", "")]
    assert check(Question("user", "root", "read", ORDERS, "final")).allowed


@pytest.mark.parametrize("principal, privilege, address, message", [
    ("user:nobody", READ, ORDERS, "user:nobody is not known here: add it first, or correct the name"),
    ("group:alice", READ, ORDERS, "group:alice is not known here"),
    ("user:Alice", READ, ORDERS, "user:Alice is not known here"),
    ("alice", READ, ORDERS, "`alice` is not a principal: write user:NAME or group:NAME"),
    ("role:alice", READ, ORDERS, "`role:alice` is not a principal"),
    ("user:", READ, ORDERS, "the name is empty"),
    ("user:a\0", READ, ORDERS, "holds a control character"),
    (None, READ, ORDERS, "`None` is not a principal"),
    ("user:alice", "read", ORDERS, "`read` is not a privilege; the privileges are READ, WRITE, EXECUTE, ADMIN"),
    ("user:alice", "", ORDERS, "`` is not a privilege"),
    ("user:alice", None, ORDERS, "`None` is not a privilege"),
    ("user:alice", READ, parse_address("instance:other"), "`instance:other` is not the instance of this console"),
    ("user:alice", READ, "dataset:sales", "`dataset:sales` lacks a part"),
])
def test_a_bad_grant_is_refused_and_nothing_is_written(orders, principal, privilege, address, message):
    before = database_state()
    with pytest.raises(GrantError, match=message):
        change_grants(author=COMMAND, grant=[(principal, address, privilege)])
    assert database_state() == before


@pytest.mark.parametrize("reason", ["\0", "\ud800", "r" * 2_001])
def test_a_reason_that_no_database_keeps_or_that_is_too_long_is_refused(orders, reason):
    with pytest.raises(GrantError, match="the reason cannot be stored"):
        change_grants(author=Author("x", reason=reason), grant=[("user:alice", ORDERS, READ)])
    assert all_grants() == set()


@pytest.mark.parametrize("role, active", [(Role.ORDINARY, True), (Role.AUDITOR, True), (Role.ADMINISTRATOR, False)])
def test_only_an_active_administrator_grants(orders, role, active):
    author = author_with(role, active=active)
    before = database_state()
    with pytest.raises(NotAdministrator, match=f"`{author.name}` is not an active administrator of this console"):
        change_grants(author=author, grant=[("user:alice", ORDERS, READ)])
    assert database_state() == before


def test_a_superuser_without_the_role_grants_nothing(orders):
    author = author_with(Role.ORDINARY)
    User.objects.filter(pk=author.user_id).update(is_superuser=True, is_staff=True)
    with pytest.raises(NotAdministrator):
        change_grants(author=author, grant=[("user:alice", ORDERS, READ)])


def test_an_account_that_is_gone_grants_nothing(orders):
    with pytest.raises(NotAdministrator):
        change_grants(author=Author("gone", user_id=4_000_000), grant=[("user:alice", ORDERS, READ)])
