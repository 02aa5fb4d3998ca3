"""Test several grants and revocations in one change."""

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from entities.address import parse_address
from entities.vocabulary import ADMIN, READ, WRITE
from grants.bulk_rows import ROWS_PER_STATEMENT
from grants.errors import ChangeRefused, StaleBase
from grants.journal import current_revision, first_break
from grants.models import User, UserGrant
from tests.support.authors import all_grants, database_state, entity_states, lines_after
from tests.support.changes import change_grants

pytestmark = pytest.mark.django_db
ORDERS, CLICKS = parse_address("dataset:sales.orders"), parse_address("stream:sales.clicks")


@pytest.fixture(autouse=True)
def people():
    User.objects.create(username="alice")
    Group.objects.create(name="analysts")
    change_grants(grant=[("user:alice", ORDERS, READ), ("group:analysts", ORDERS, READ)])


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
        ("user:alice", "stream:sales.clicks", "WRITE"),
        ("group:analysts", "dataset:sales.orders", "READ"),
        ("group:analysts", "dataset:sales.orders", "ADMIN"),
    }
    assert lines_after(revision) == [
        ("revoke", "user:alice", "dataset:sales.orders", "READ", ""),
        ("plan", "", "stream:sales.clicks", "", ""),
        ("grant", "user:alice", "stream:sales.clicks", "WRITE", ""),
        ("grant", "group:analysts", "dataset:sales.orders", "ADMIN", ""),
    ]
    assert [item.key for item in outcome.granted] == [
        ("user:alice", CLICKS, WRITE),
        ("group:analysts", ORDERS, ADMIN),
    ]
    assert [item.key for item in outcome.revoked] == [("user:alice", ORDERS, READ)]
    assert outcome.unchanged == (
        "group:analysts already holds READ on dataset:sales.orders: nothing changed",
        "user:alice does not hold ADMIN on dataset:sales.orders: nothing changed",
    )
    assert (outcome.planned, outcome.revision) == ((CLICKS,), revision + 4)
    assert (
        outcome.sentence
        == "granted 2, revoked 1, 2 unchanged; 1 address is only planned: stream:sales.clicks"
    )
    assert outcome.forecast_summary == (
        "would grant 2, would revoke 1, 2 would stay as it is; "
        "1 address would be registered as planned: "
        "stream:sales.clicks"
    )


def test_the_same_change_again_changes_nothing():
    change = {"grant": [("user:alice", CLICKS, WRITE)], "revoke": [("user:alice", ORDERS, READ)]}
    change_grants(**change)
    before = database_state()
    outcome = change_grants(**change)
    assert (outcome.has_changed, outcome.sentence, len(outcome.unchanged)) == (False, "nothing changed", 2)
    assert database_state() == before


def test_an_empty_change_changes_nothing():
    before = database_state()
    assert not change_grants().has_changed
    assert database_state() == before


def test_any_iterable_will_do():
    outcome = change_grants(
        grant=((p, CLICKS, READ) for p in ("user:alice", "group:analysts")), revoke=iter(())
    )
    assert len(outcome.granted) == 2


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
    assert [(error.index, error.verb) for error in refused.value.errors] == [
        (1, "grant"),
        (2, "grant"),
        (3, "grant"),
        (4, "grant"),
        (0, "revoke"),
        (1, "revoke"),
        (2, "revoke"),
    ]
    messages = str(refused.value).splitlines()
    assert messages[0] == "grant[1]: user:nobody does not exist: add it first, or correct the name"
    assert messages[3] == (
        "grant[4]: ADMIN on stream:sales.clicks for user:alice repeats grant[0]: keep one of the two"
    )
    assert messages[5] == (
        "revoke[1]: ADMIN on stream:sales.clicks for user:alice repeats grant[0]: keep one of the two"
    )
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
    addresses = [parse_address(f"{kind}:sales.{n}") for n in range(5) for kind in ("dataset", "stream")]
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

    few, many = names[:1], names[1:41]
    assert len(items(many)) < ROWS_PER_STATEMENT
    assert statements(grant=items(few)) == statements(grant=items(many)) <= 18
    assert statements(revoke=items(few)) == statements(revoke=items(many)) <= 14
    assert first_break() is None


def test_a_change_with_more_items_than_fit_in_one_statement_is_complete():
    addresses = [parse_address(f"dataset:big.{n}") for n in range(ROWS_PER_STATEMENT + 5)]
    items = [("user:alice", address, ADMIN) for address in addresses]
    assert len(change_grants(grant=items).granted) == len(items)
    assert UserGrant.objects.count() == len(items) + 1
    assert entity_states()["namespace:big"] == "planned"
    assert len(change_grants(revoke=items).revoked) == len(items)
    assert UserGrant.objects.count() == 1
    assert first_break() is None
