"""A question names a revision, or a time with a time zone that is not in the future."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from entities.address import parse_address
from grants.history import AsOfError, known_since, parse_as_of, parse_at, revision_time
from grants.history.periods import catch_up
from grants.journal import Author
from grants.models import JournalLine
from grants.tenant.import_document import import_tenant
from tests.support.changes import add_user, register_entity

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def lines():
    """Three lines, two of them at noon."""
    for name in ("alice", "bob", "carol"):
        add_user(name)
    JournalLine.objects.update(at=NOON)
    JournalLine.objects.filter(revision=3).update(at=NOON + timedelta(hours=1))


@pytest.mark.parametrize(
    ("text", "revision"),
    [
        (2, 2),
        ("2", 2),
        (" 3 ", 3),
        ("2026-05-01T12:00:00Z", 2),
        ("2026-05-01T12:59:59.999999Z", 2),
        ("2026-05-01T13:00:00z", 3),
        ("2026-05-01T14:00:00+02:00", 2),
        ("2026-05-01t14:00:00.123456789-02:00", 3),
        ("2026-05-01 12:00:00Z", 2),
    ],
)
def test_a_revision_or_a_time_is_a_revision(lines, text, revision):
    assert parse_as_of(text) == revision


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (0, "first revision is 1"),
        (4, "revision 4 does not exist: the newest revision is 3"),
        ("999999999999", "does not exist"),
        ("2026-05-01T11:59:59Z", "before the first journal line"),
        ("9999-01-01T00:00:00Z", "in the future"),
        ("2026-05-01T12:00:00", "no time zone"),
        ("2026-02-30T12:00:00Z", "no such day"),
        ("2026-05-01", "neither a revision"),
        ("yesterday", "neither a revision"),
        ("", "neither a revision"),
        (True, "must be a revision"),
        (None, "must be a revision"),
        (1.5, "must be a revision"),
        ("-1", "neither a revision"),
        ("٣", "neither a revision"),
        ("\x00", "neither a revision"),
    ],
)
def test_other_texts_are_refused(lines, text, message):
    with pytest.raises(AsOfError, match=message):
        parse_as_of(text)


def test_an_empty_journal_has_no_past():
    with pytest.raises(AsOfError, match="journal is empty"):
        parse_as_of("2026-05-01T12:00:00Z")
    with pytest.raises(AsOfError, match="newest revision is 0"):
        parse_as_of(1)


def test_the_time_of_a_question_can_be_in_the_future_but_needs_a_zone():
    future = (timezone.now() + timedelta(days=9)).replace(microsecond=0)
    assert parse_at(future.isoformat()) == future
    for text in ("2026-05-01T12:00:00", "12", "", None):
        with pytest.raises(AsOfError):
            parse_at(text)


def test_the_first_line_about_a_subject_is_known(lines):
    register_entity("namespace:a")
    document = b'{"type":"user","name":"dave"}\n{"type":"entity","id":"dataset:b.c"}\n'
    import_tenant(stream=io.BytesIO(document), author=Author("import_tenant"))
    catch_up()
    bob, dave = known_since("user:bob"), known_since("user:dave")
    assert (bob.revision, bob.action, bob.is_import, bob.at) == (2, "user-add", False, revision_time(2))
    assert (dave.action, dave.is_import) == ("user-add", True)
    namespace, dataset = known_since(parse_address("namespace:a")), known_since(parse_address("dataset:b.c"))
    assert (namespace.action, namespace.is_import, dataset.is_import) == ("register", False, True)
    assert known_since("user:nobody") is None and known_since(parse_address("dataset:b.d")) is None
    assert revision_time(10_000) is None
