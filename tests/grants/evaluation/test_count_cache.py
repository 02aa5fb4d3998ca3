"""Test that a cached count is used again only until the data changes."""

import re
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from entities.address import parse_address
from entities.models import Entity
from entities.selectors import entity_at
from grants.evaluation.count_cache import cached_count
from grants.evaluation.engine import check_summary
from grants.evaluation.entity_filters import visibility_condition
from grants.evaluation.visibility import visibility_of
from grants.models import GroupGrant, Membership, UserGrant
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import Question
from grants.validity import at_time
from tests.support.changes import (
    add_grant,
    add_member,
    delete_entity,
    recreate_entity,
    register_entity,
    remove_member,
    revoke_grant,
    set_user_active,
)

# inside a transaction nothing is cached, so no transaction may enclose the tests
pytestmark = pytest.mark.django_db(transaction=True)
SALES, ORDERS, MORE = (
    parse_address("namespace:sales"),
    parse_address("dataset:sales.orders"),
    parse_address("dataset:sales.more"),
)
# each changes the entities that a user sees in `sales`, or the live entities in it
CHANGES = (
    lambda: register_entity(MORE, creator="user:ned"),
    lambda: add_grant("user:out", MORE, "READ"),
    lambda: revoke_grant("user:out", MORE, "READ"),
    lambda: add_member("out", "operators"),
    lambda: add_grant("group:operators", MORE, "READ"),
    lambda: remove_member("out", "operators"),
    lambda: delete_entity(MORE),
    lambda: recreate_entity(MORE, creator="user:dee"),
    lambda: set_user_active("ned", active=False),
)


def call_counter():
    """Return a count function that returns the number of its calls."""
    calls = Counter()

    def count():
        calls["calls"] += 1
        return Counter(calls)

    return count


def test_a_count_is_cached_until_the_data_changes(cast):
    count = call_counter()
    assert [cached_count("a", count, at=None)["calls"] for _ in range(3)] == [1, 1, 1]
    assert cached_count("b", count, at=None)["calls"] == 2
    register_entity(MORE)
    assert [cached_count(name, count, at=None)["calls"] for name in "aab"] == [3, 3, 4]


def test_a_count_of_grants_is_cached_only_until_a_grant_or_membership_begins_or_ends(cast):
    count, now = call_counter(), timezone.now().replace(microsecond=0)
    hour = timedelta(hours=1)
    UserGrant.objects.filter(user=cast["dee"]).update(valid_until=now + hour)
    Membership.objects.filter(user=cast["grp"]).update(valid_from=now + 2 * hour)
    times = [
        now,
        now + hour / 2,
        now + hour,
        now + hour * 3 / 2,
        now + 2 * hour,
        now + 9 * hour,
        now + 2 * hour,
    ]
    assert [cached_count("a", count, at=at)["calls"] for at in times] == [1, 1, 2, 2, 3, 3, 3]
    # the clock was set back, or the question is about the past
    assert cached_count("a", count, at=now)["calls"] == 4


def test_visibility_counts_follow_the_time(cast, monkeypatch):
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS_INSIDE", -1)
    now = timezone.now()
    UserGrant.objects.filter(user=cast["ned"]).update(valid_until=now + timedelta(hours=1))
    counts = []
    for minutes in (0, 30, 60, 90, 0):
        with at_time(now + timedelta(minutes=minutes)):
            counts.append(
                visibility_of(cast["ned"], GENERATIONS["final"], inside=entity_at(SALES)).counts.total()
            )
    assert counts == [5, 5, 0, 0, 5]


def test_nothing_is_cached_in_a_transaction_because_it_may_be_rolled_back(cast):
    count = call_counter()
    with transaction.atomic():
        assert [cached_count("a", count, at=None)["calls"] for _ in range(2)] == [1, 2]
    assert cached_count("a", count, at=None)["calls"] == 3


def test_nothing_is_cached_without_a_journal(db):
    count = call_counter()
    assert [cached_count("a", count, at=None)["calls"] for _ in range(2)] == [1, 2]


def test_changing_a_result_does_not_change_the_cached_count(cast):
    count = call_counter()
    cached_count("a", count, at=None).clear()
    assert cached_count("a", count, at=None)["calls"] == 1


def test_cached_visibility_counts_are_correct_after_each_change(cast, monkeypatch):
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS_INSIDE", -1)
    inside = entity_at(SALES)
    rows = Entity.objects.filter(namespace=inside).exclude(pk=inside.pk)
    for change in (None, *CHANGES):
        if change:
            change()
        for generation in GENERATIONS.values():
            for name in ("ned", "dee", "grp", "ina"):
                user = cast[name]
                user.refresh_from_db()
                expected = Counter(
                    rows.filter(visibility_condition(user, generation)).values_list("kind", "state")
                )
                counts = [visibility_of(user, generation, inside=inside).counts for _ in range(2)]
                assert counts == [expected, expected], (name, generation.name)


def test_a_deletion_checks_the_current_live_entities_after_each_change(cast):
    for change in (None, *CHANGES):
        if change:
            change()
        live = (
            Entity.objects.filter(namespace=entity_at(SALES), state="live").exclude(kind="namespace").count()
        )
        attempts = check_summary(Question("user", "dee", "delete", SALES, "final"), 2).attempts
        assert live in [node.checked_count for node in _nodes(attempts)]


def test_the_page_of_a_namespace_counts_its_current_entities_for_an_administrator(cast, client):
    client.force_login(cast["ada"])
    totals = [client.get(f"/entities/{SALES}").context["children"]["total"] for _ in range(2)]
    register_entity(MORE)
    assert [*totals, client.get(f"/entities/{SALES}").context["children"]["total"]] == [6, 6, 7]


def test_cached_counts_save_at_least_two_queries_of_two_tabs(cast, client):
    client.force_login(cast["ada"])
    query_counts = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as captured:
            for query in ("subject=user:dee&operation=delete&deleter=dee", "tab=inside"):
                client.get(f"/entities/{SALES}?{query}")
        query_counts.append(len(captured))
    first, second = query_counts
    # the children of the namespace and the live entities for the question are counted only for the first page
    assert first - second >= 2 and first <= 42


# The columns of a grant on which counts depend. The journal has a line for every change of one of them.
# The cache compares the next limit of a validity with the time of the question.
COUNTED_COLUMNS = {
    "id",
    "user_id",
    "group_id",
    "content_object_id",
    "permission_id",
    "namespace_id",
    "application_id",
    "valid_from",
    "valid_until",
    "pattern_id",
}


def test_cached_counts_read_no_column_of_a_grant_that_may_change_without_a_journal_line(cast, monkeypatch):
    """The hash of the journal is the key of the cache.

    Add a column to COUNTED_COLUMNS only if every change of its value has a journal line and time alone
    changes no effect of it.
    """
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS_INSIDE", -1)
    with CaptureQueriesContext(connection) as captured:
        for generation in GENERATIONS.values():
            for user in cast.values():
                assert visibility_of(user, generation, inside=entity_at(SALES)).counts is not None
                check_summary(Question("user", user.username, "delete", SALES, generation.name), 2)
    statements = "\n".join(query["sql"] for query in captured)
    columns = {column.column for model in (UserGrant, GroupGrant) for column in model._meta.concrete_fields}
    assert "namespace_id" in statements
    assert {
        column for column in columns - COUNTED_COLUMNS if re.search(rf"\b{column}\b", statements)
    } == set()


def _nodes(attempts):
    for attempt in attempts:
        yield attempt
        yield from _nodes(getattr(attempt, "parts", ()))
