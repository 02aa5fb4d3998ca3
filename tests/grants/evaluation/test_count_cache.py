"""What was counted is told again only as long as nothing is changed."""

import re
from collections import Counter

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from entities.address import parse_address
from entities.models import Entity
from entities.selectors import entity_at
from grants.changes.services import change_grants
from grants.evaluation.count_cache import cached_count
from grants.evaluation.engine import check_summary
from grants.evaluation.entity_filters import visibility_condition
from grants.evaluation.visibility import visibility_of
from grants.lifecycle.services import delete_entity, recreate_entity, register_entity
from grants.models import GroupGrant, UserGrant
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import Question
from grants.principals.services import add_member, remove_member, set_user_active
from tests.support.cast import SETUP, create_sample_tenant

# a transaction around the test would be one in which nothing is kept
pytestmark = pytest.mark.django_db(transaction=True)
SALES, ORDERS, MORE = parse_address("namespace:sales"), parse_address("dataset:sales.orders"), parse_address("dataset:sales.more")
# each changes what somebody sees in `sales`, or what lives there
CHANGES = (
    lambda: register_entity(author=SETUP, address=MORE, creator="user:ned"),
    lambda: change_grants(author=SETUP, grant=[("user:out", MORE, "READ")]),
    lambda: change_grants(author=SETUP, revoke=[("user:out", MORE, "READ")]),
    lambda: add_member(author=SETUP, user="out", group="operators"),
    lambda: change_grants(author=SETUP, grant=[("group:operators", MORE, "READ")]),
    lambda: remove_member(author=SETUP, user="out", group="operators"),
    lambda: delete_entity(author=SETUP, address=MORE),
    lambda: recreate_entity(author=SETUP, address=MORE, creator="user:dee"),
    lambda: set_user_active(author=SETUP, name="ned", active=False),
)


@pytest.fixture
def cast():
    return create_sample_tenant()


def numbers():
    """A count that finds one more each time."""
    found = Counter()

    def count():
        found["asked"] += 1
        return Counter(found)

    return count


def test_the_same_is_counted_once_until_something_is_changed(cast):
    count = numbers()
    assert [cached_count("a", count)["asked"] for _ in range(3)] == [1, 1, 1]
    assert cached_count("b", count)["asked"] == 2
    register_entity(author=SETUP, address=MORE)
    assert [cached_count(name, count)["asked"] for name in "aab"] == [3, 3, 4]


def test_in_a_transaction_nothing_is_kept_as_it_may_be_taken_back(cast):
    count = numbers()
    with transaction.atomic():
        assert [cached_count("a", count)["asked"] for _ in range(2)] == [1, 2]
    assert cached_count("a", count)["asked"] == 3


def test_what_was_never_journalled_is_not_kept(db):
    count = numbers()
    assert [cached_count("a", count)["asked"] for _ in range(2)] == [1, 2]


def test_who_changes_what_was_told_changes_nothing_for_the_next(cast):
    count = numbers()
    cached_count("a", count).clear()
    assert cached_count("a", count)["asked"] == 1


def test_after_each_change_everybody_sees_as_many_as_are_shown(cast, monkeypatch):
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS_INSIDE", -1)
    inside = entity_at(SALES)
    rows = Entity.objects.filter(namespace=inside).exclude(pk=inside.pk)
    for change in (None, *CHANGES):
        if change:
            change()
        for generation in GENERATIONS.values():
            for name, user in cast.items():
                user.refresh_from_db()
                shown = Counter(rows.filter(visibility_condition(user, generation)).values_list("kind", "state"))
                told = [visibility_of(user, generation, inside=inside).counts for _ in range(2)]
                assert told == [shown, shown], (name, generation.name)


def test_after_each_change_a_deletion_asks_for_what_lives_there(cast):
    for change in (None, *CHANGES):
        if change:
            change()
        live = Entity.objects.filter(namespace=entity_at(SALES), state="live").exclude(kind="namespace").count()
        attempts = check_summary(Question("user", "dee", "delete", SALES, "final"), 2).attempts
        assert live in [node.checked_count for node in _nodes(attempts)]


def test_who_oversees_is_shown_what_there_is_now(cast, client):
    client.force_login(cast["ada"])
    shown = [client.get(f"/entities/{SALES}").context["children"]["total"] for _ in range(2)]
    register_entity(author=SETUP, address=MORE)
    assert [*shown, client.get(f"/entities/{SALES}").context["children"]["total"]] == [6, 6, 7]


def test_to_ask_whether_anything_changed_takes_two_queries_of_a_page(cast, client):
    client.force_login(cast["ada"])
    asked = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as captured:
            client.get(f"/entities/{SALES}?subject=user:dee&operation=delete&deleter=dee")
        asked.append(len(captured))
    first, second = asked
    # one each for what lies in it and for what is asked for; what they found the first time is not counted again
    assert first - second >= 2 and first <= 36


# The columns of a grant that decide what is counted. The journal has a line for every change of one of them.
COUNTED_COLUMNS = {"id", "user_id", "group_id", "content_object_id", "permission_id", "namespace_id", "application_id"}


def test_cached_counts_read_no_column_of_a_grant_that_may_change_without_a_journal_line(cast, monkeypatch):
    """The hash of the journal is the key of the cache.

    Add a column to COUNTED_COLUMNS only if every change of its value and of its effect has a journal line. A time limit has none
    when it expires: the key of the cache needs the time, too.
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
    assert {column for column in columns - COUNTED_COLUMNS if re.search(rf"\b{column}\b", statements)} == set()


def _nodes(attempts):
    for attempt in attempts:
        yield attempt
        yield from _nodes(getattr(attempt, "parts", ()))
