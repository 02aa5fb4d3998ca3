"""Inside `as_of`, queries return the earlier state.

Nothing can be written inside it, and it leaves nothing behind.
"""

import io

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.db.models import Count

from entities.address import parse_address
from entities.models import Entity
from entities.vocabulary import Privilege
from grants.evaluation.engine import check
from grants.history import AsOfError, HistoryError, HistoryNotReady, as_of, past_revision
from grants.journal import Author, current_revision
from grants.models import ActiveGeneration, GroupGrant, JournalLine, User, UserGrant
from grants.models.history import FIRST_ID
from grants.policies.question import Question
from tests.support.authors import account
from tests.support.changes import add_grant, add_group, add_member, add_user, register_entity

pytestmark = pytest.mark.django_db
ORDERS = parse_address("dataset:sales.orders")
QUESTION = Question("user", "alice", "READ", ORDERS, "existing")


@pytest.fixture
def before():
    """The revision before alice receives a grant, which is the newest revision."""
    add_user("alice")
    add_user("root", role="administrator", is_principal=False)
    for address in (parse_address("namespace:sales"), ORDERS):
        register_entity(address)
    revision = current_revision()
    root = account("root")
    add_grant(
        "user:alice", ORDERS, Privilege.READ, author=Author("root", reason="month end", user_id=root.pk)
    )
    return revision


def test_a_question_is_answered_for_the_past(before):
    assert check(QUESTION).is_permitted
    with as_of(before):
        assert past_revision() == before and not check(QUESTION).is_permitted
    with as_of(before + 1):
        assert check(QUESTION).is_permitted
    assert past_revision() is None and check(QUESTION).is_permitted


def test_a_grant_of_the_past_has_its_author_time_and_reason(before):
    with as_of(before + 1):
        grant = UserGrant.objects.select_related("granted_by", "user", "content_object").get()
        assert (grant.granted_by.username, grant.reason, str(grant.user)) == (
            "root",
            "month end",
            "user:alice",
        )
    assert grant.granted_at == JournalLine.objects.get(action="grant").at


def test_objects_of_the_present_match_nothing_in_the_past(before):
    alice, orders = account("alice"), Entity.objects.get(key="sales.orders")
    with as_of(before + 1):
        assert (
            not UserGrant.objects.filter(user=alice).exists()
            and not Entity.objects.filter(pk=orders.pk).exists()
        )
        assert account("alice").pk >= FIRST_ID


def test_every_column_of_the_tables_can_be_read(before):
    add_group("readers")
    add_member("alice", "readers")
    add_grant("group:readers", ORDERS, Privilege.READ)
    with as_of(current_revision()):
        for model in (User, Group, User.groups.through, UserGrant, GroupGrant, Entity):
            assert list(model.objects.all())
        assert list(ActiveGeneration.objects.all()) == []


def test_rows_of_the_past_can_be_grouped(before):
    with as_of(before + 1):
        assert [user.total for user in User.objects.annotate(total=Count("grants")).order_by("username")] == [
            1,
            0,
        ]


def test_nothing_can_be_written_in_the_past(before):
    add_user("bob")
    with pytest.raises(DatabaseError), as_of(before):
        add_user("eve")
    with pytest.raises(DatabaseError), as_of(before):
        Group.objects.create(name="written")
    add_user("carol")
    assert set(User.objects.values_list("username", flat=True)) == {"alice", "root", "bob", "carol"}


def test_a_question_about_the_past_inside_another_one_is_refused(before):
    with as_of(before):
        with pytest.raises(HistoryError, match="inside another one"), as_of(before + 1):
            pass
        assert not check(QUESTION).is_permitted


@pytest.mark.parametrize(
    ("revision", "message"), [(0, "first revision is 1"), (10_000, "does not exist: the newest revision")]
)
def test_an_unknown_revision_is_refused(before, revision, message):
    with pytest.raises(AsOfError, match=message), as_of(revision):
        pass
    assert past_revision() is None


def test_a_read_leaves_very_many_new_lines_to_the_periodic_task(before, monkeypatch):
    monkeypatch.setattr("grants.history.periods.MAX_LINES_PER_READ", 2)
    with pytest.raises(HistoryNotReady, match="try again in a minute"), as_of(before):
        pass


def test_the_views_are_gone_after_an_error(before):
    with pytest.raises(ZeroDivisionError), as_of(before):
        raise ZeroDivisionError
    assert past_revision() is None and check(QUESTION).is_permitted


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_is_used_again_and_its_prepared_statements_answer_correctly(before):
    with connection.cursor() as cursor:
        # the temporary schema of PostgreSQL then precedes the others in the present too
        cursor.execute("CREATE TEMPORARY TABLE other (id integer)")
    if connection.vendor == "postgresql":
        connection.connection.prepare_threshold = 5
    for _ in range(8):
        assert check(QUESTION).is_permitted
        with as_of(before):
            assert not check(QUESTION).is_permitted
        with pytest.raises(DatabaseError), as_of(before):
            Group.objects.create(name="written")
    with pytest.raises(DatabaseError), as_of(before), connection.cursor() as cursor:
        cursor.execute("SELECT * FROM missing_table")
    assert not connection.in_atomic_block
    assert check(QUESTION).is_permitted
    add_group("readers")
    if connection.vendor == "postgresql":
        assert (
            connection.connection.prepare_threshold == 5 and connection.features.allows_group_by_selected_pks
        )
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE other")


def test_the_restricted_role_can_ask_about_the_past(before):
    if connection.vendor != "postgresql":
        pytest.skip("for PostgreSQL")
    call_command("restrict_database_role", "console test role", stdout=io.StringIO())
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute('SET LOCAL ROLE "console test role"')
        with as_of(before):
            assert not check(QUESTION).is_permitted
        assert check(QUESTION).is_permitted
        cursor.execute("RESET ROLE")
