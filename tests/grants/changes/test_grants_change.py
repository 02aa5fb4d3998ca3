"""Test grants and revocations, alone and several in one change."""

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.address import parse_address
from entities.models import Entity, State
from entities.services import ensure_entities
from entities.vocabulary import ADMIN, READ, WRITE
from grants.bulk_rows import ROWS_PER_STATEMENT
from grants.errors import ChangeRefused, GrantError, NotAdministrator, StaleBase
from grants.journal import Author, current_revision, first_break
from grants.models import JournalLine, Role, User, UserGrant
from tests.support.authors import (
    administrator,
    all_grants,
    author_with,
    database_state,
    entity_states,
    is_permitted,
    lines_after,
)
from tests.support.changes import add_grant, change_grants, revoke_grant

pytestmark = pytest.mark.django_db
ORDERS, CLICKS = "dataset:sales.orders", "stream:sales.clicks"


@pytest.fixture(autouse=True)
def people():
    """alice and the group analysts can read ORDERS; ina is inactive."""
    User.objects.create(username="alice")
    User.objects.create(username="ina", is_active=False)
    Group.objects.create(name="analysts")
    change_grants(grant=[("user:alice", ORDERS, READ), ("group:analysts", ORDERS, READ)])


def can_write(name: str) -> bool:
    return is_permitted(name, "write", ORDERS)


def test_a_grant_records_author_time_and_reason_and_changes_the_decision():
    author = administrator()
    assert not can_write("alice")
    outcome = add_grant("user:alice", ORDERS, WRITE, author=author)
    assert can_write("alice")
    assert (outcome.sentence, [str(item) for item in outcome.granted]) == (
        "granted 1",
        ["WRITE on dataset:sales.orders for user:alice"],
    )
    grant, line = UserGrant.objects.latest("pk"), JournalLine.objects.latest("revision")
    assert (grant.granted_by_id, grant.reason, grant.privilege) == (author.user_id, "quarterly close", WRITE)
    assert abs((grant.granted_at - line.at).total_seconds()) < 5
    assert (line.actor, line.reason, line.request_id) == (author.name, "quarterly close", "request-1")
    assert outcome.revision == current_revision() == line.revision


def test_a_change_revokes_then_grants_and_reports_the_changes():
    revision = current_revision()
    outcome = change_grants(
        grant=[
            ("user:alice", CLICKS, WRITE),
            ("group:analysts", ORDERS, READ),
            ("group:analysts", ORDERS, ADMIN),
        ],
        revoke=[("user:alice", ORDERS, READ), ("user:alice", ORDERS, ADMIN)],
    )
    assert all_grants() == {
        ("user:alice", CLICKS, "WRITE"),
        ("group:analysts", ORDERS, "READ"),
        ("group:analysts", ORDERS, "ADMIN"),
    }
    assert lines_after(revision) == [
        ("revoke", "user:alice", ORDERS, "READ", ""),
        ("plan", "", CLICKS, "", ""),
        ("grant", "user:alice", CLICKS, "WRITE", ""),
        ("grant", "group:analysts", ORDERS, "ADMIN", ""),
    ]
    assert [(str(item.address), item.privilege) for item in (*outcome.granted, *outcome.revoked)] == [
        (CLICKS, WRITE),
        (ORDERS, ADMIN),
        (ORDERS, READ),
    ]
    assert outcome.unchanged == (
        "group:analysts already holds READ on dataset:sales.orders: nothing changed",
        "user:alice does not hold ADMIN on dataset:sales.orders: nothing changed",
    )
    assert (list(map(str, outcome.planned)), outcome.revision) == ([CLICKS], revision + 4)
    assert (
        outcome.sentence
        == "granted 2, revoked 1, 2 unchanged; 1 address is only planned: stream:sales.clicks"
    )
    assert outcome.forecast_summary.startswith("would grant 2, would revoke 1, 2 would stay as it is; ")


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"grant": [("user:alice", ORDERS, READ)], "revoke": [("user:alice", ORDERS, WRITE)]},
        {"revoke": [("user:alice", "dataset:sales.none", READ)]},
    ],
)
def test_a_change_to_the_current_state_changes_nothing(change):
    before = database_state()
    outcome = change_grants(**change)
    assert (outcome.has_changed, outcome.sentence) == (False, "nothing changed")
    assert database_state() == before


def test_a_member_can_receive_a_privilege_that_its_group_already_has():
    Group.objects.get().user_set.add(User.objects.get(username="ina"))
    assert add_grant("user:ina", ORDERS, READ).has_changed


def test_granting_on_an_unregistered_address_registers_it_and_its_containers_as_planned():
    revision, address = current_revision(), "program:sales.etl.spark.p"
    assert add_grant("user:alice", address, READ).sentence.startswith(
        "granted 1; 2 addresses are only planned: "
    )
    assert set(entity_states().values()) == {"planned"}
    assert lines_after(revision) == [
        ("plan", "", "application:sales.etl", "", ""),
        ("plan", "", address, "", ""),
        ("grant", "user:alice", address, "READ", ""),
    ]
    # the address remains registered without grants
    revoke_grant("user:alice", address, READ)
    assert entity_states()[address] == "planned"


@pytest.mark.parametrize("state", State.values)
def test_a_registered_address_keeps_its_state(state):
    ensure_entities(states={parse_address(CLICKS): state})
    revision = current_revision()
    add_grant("user:alice", CLICKS, READ)
    assert entity_states()[CLICKS] == state and [line[0] for line in lines_after(revision)] == ["grant"]


def test_an_inactive_user_can_receive_grants_but_is_denied_until_active():
    add_grant("user:ina", ORDERS, WRITE)
    assert not can_write("ina")
    User.objects.filter(username="ina").update(is_active=True)
    assert can_write("ina")


def test_an_account_becomes_a_principal_with_its_first_grant():
    User.objects.create(username="root", is_principal=False)
    revision = current_revision()
    add_grant("user:root", ORDERS, WRITE)
    assert [line[:2] for line in lines_after(revision)] == [
        ("principal-add", "user:root"),
        ("grant", "user:root"),
    ]
    assert can_write("root")


@pytest.mark.parametrize("change", [add_grant, revoke_grant])
@pytest.mark.parametrize(
    ("principal", "message"),
    [
        ("user:nobody", "user:nobody does not exist: add it first, or correct the name"),
        ("group:alice", "group:alice does not exist"),
        ("user:Alice", "user:Alice does not exist"),
        ("alice", "`alice` is not a principal: write user:NAME, group:NAME or role:NAME"),
        ("team:alice", "`team:alice` is not a principal"),
        ("user:", "the name is empty"),
        ("user:a\0", "holds a control character"),
    ],
)
def test_an_invalid_principal_is_refused_and_nothing_is_written(change, principal, message):
    before = database_state()
    with pytest.raises(GrantError, match=message):
        change(principal, ORDERS, READ)
    assert database_state() == before


@pytest.mark.parametrize("reason", ["\0", "\ud800", "r" * 2_001])
def test_a_reason_that_cannot_be_stored_is_refused(reason):
    before = database_state()
    with pytest.raises(GrantError, match="the reason cannot be stored"):
        add_grant("user:alice", ORDERS, WRITE, author=Author("x", reason=reason))
    assert database_state() == before


@pytest.mark.parametrize("change", [add_grant, revoke_grant])
@pytest.mark.parametrize(
    ("role", "columns"),
    [
        (Role.ORDINARY, {}),
        (Role.AUDITOR, {}),
        (Role.ADMINISTRATOR, {"is_active": False}),
        (Role.ORDINARY, {"is_superuser": True, "is_staff": True}),
    ],
)
def test_only_an_active_administrator_can_change_grants(change, role, columns):
    author = author_with(role)
    User.objects.filter(pk=author.user_id).update(**columns)
    before = database_state()
    with pytest.raises(NotAdministrator, match=f"`{author.name}` is not an active administrator"):
        change("user:alice", ORDERS, READ, author=author)
    assert database_state() == before


def test_a_deleted_account_cannot_grant():
    with pytest.raises(NotAdministrator):
        add_grant("user:alice", ORDERS, READ, author=Author("gone", user_id=4_000_000))


def test_every_bad_item_is_named_with_its_place_and_none_is_written():
    before = database_state()
    with pytest.raises(ChangeRefused) as refused:
        change_grants(
            grant=[
                ("user:alice", CLICKS, ADMIN),
                ("user:nobody", CLICKS, READ),
                ("user:", CLICKS, READ),
                ("user:alice", "instance:other", READ),
                ("user:alice", CLICKS, ADMIN),
            ],
            revoke=[("alice", ORDERS, READ), ("user:alice", CLICKS, ADMIN), ("group:nobody", ORDERS, READ)],
        )
    assert [(error.verb, error.index) for error in refused.value.errors] == [
        *(("grant", index) for index in (1, 2, 3, 4)),
        *(("revoke", index) for index in (0, 1, 2)),
    ]
    messages = str(refused.value).splitlines()
    assert messages[0].startswith("grant[1]: user:nobody does not exist")
    assert "`instance:other` is not the instance of this console" in messages[2]
    repeats = "ADMIN on stream:sales.clicks for user:alice repeats grant[0]: keep one of the two"
    assert (messages[3], messages[5]) == (f"grant[4]: {repeats}", f"revoke[1]: {repeats}")
    assert database_state() == before


def test_a_change_based_on_an_older_revision_is_refused_with_both_revisions():
    base = current_revision()
    change_grants(grant=[("user:alice", ORDERS, ADMIN)], base_revision=base)
    before = database_state()
    with pytest.raises(
        StaleBase, match=f"made for revision {base}, but the console is at revision {base + 1}"
    ) as stale:
        change_grants(grant=[("user:alice", ORDERS, WRITE)], base_revision=base)
    assert (stale.value.base_revision, stale.value.revision) == (base, base + 1)
    assert database_state() == before
    with pytest.raises(StaleBase):
        change_grants(base_revision=0)


def test_a_change_that_fails_at_its_end_writes_nothing(monkeypatch):
    before = database_state()
    monkeypatch.setattr("grants.changes.grants.append_to_journal", lambda *args, **given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        change_grants(grant=[("user:alice", CLICKS, READ)], revoke=[("user:alice", ORDERS, READ)])
    assert database_state() == before


def test_the_number_of_statements_does_not_grow_with_the_items():
    names = [f"user {n}" for n in range(40)]
    User.objects.bulk_create(User(username=name, is_principal=False) for name in names)
    Group.objects.bulk_create(Group(name=name) for name in names)
    addresses = [f"{kind}:sales.{n}" for n in range(5) for kind in ("dataset", "stream")]
    change_grants(grant=[("user:alice", address, ADMIN) for address in addresses])

    def items(people):
        return [
            (f"{kind}:{name}", address, READ)
            for name in people
            for kind in ("user", "group")
            for address in addresses
        ]

    def statements(**change):
        with CaptureQueriesContext(connection) as captured:
            change_grants(**change)
        return len(captured)

    few, many = names[:1], names[1:]
    assert len(items(many)) < ROWS_PER_STATEMENT
    assert statements(grant=items(few)) == statements(grant=items(many)) <= 18
    assert statements(revoke=items(few)) == statements(revoke=items(many)) <= 14


def test_a_change_with_more_items_than_fit_in_one_statement_is_complete():
    items = [("user:alice", f"dataset:big.{n}", ADMIN) for n in range(ROWS_PER_STATEMENT + 5)]
    count = UserGrant.objects.count()
    assert len(change_grants(grant=items).granted) == len(items)
    assert UserGrant.objects.count() == len(items) + count
    assert Entity.objects.get(key="big").state == State.PLANNED
    assert len(change_grants(revoke=items).revoked) == len(items)
    assert UserGrant.objects.count() == count and first_break() is None
