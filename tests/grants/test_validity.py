"""The validity of grants and memberships: parsing, the time of a question, and the condition that a row
counts.
"""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from entities.models import Entity
from grants.models import GroupGrant, Membership, User, UserGrant, permission_ids
from grants.validity import (
    Validity,
    ValidityError,
    at_time,
    format_period,
    in_force_condition,
    in_force_sql,
    next_change_of_time,
    parse_period,
    question_time,
)

BEGIN, END = datetime(2026, 12, 1, tzinfo=UTC), datetime(2026, 12, 5, 16, 0, 0, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LIMITS = [(None, None), (BEGIN, None), (None, END), (BEGIN, END)]
MOMENTS = [BEGIN - MICROSECOND, BEGIN, BEGIN + MICROSECOND, END - MICROSECOND, END, END + MICROSECOND]


@pytest.fixture
def membership(db):
    return Membership.objects.create(
        user=User.objects.create(username="alice"), group=Group.objects.create(name="analysts")
    )


def test_times_are_parsed_to_utc():
    assert Validity.parse("2026-12-01T01:00:00+01:00", "2026-12-05T16:00:00Z") == Validity(BEGIN, END)
    assert Validity.parse() == Validity.parse("", None) == Validity()


@pytest.mark.parametrize(
    "valid_from, valid_until, field, message",
    [
        ("2026-12-01T00:00:00", None, "valid_from", "no time zone"),
        (None, "2026-12-05", "valid_until", "is not a time"),
        (None, 5, "valid_until", "is not a time"),
        (None, "2026-12-05T00:00:00.5Z", "valid_until", "whole seconds"),
        (None, "9999-12-31T23:59:59-01:00", "valid_until", "is not a time"),
        ("0001-01-01T00:00:00+01:00", None, "valid_from", "is not a time"),
        ("2026-12-05T16:00:00Z", "2026-12-05T16:00:00Z", "valid_until", "not after the beginning"),
        ("2026-12-05T16:00:00Z", "2026-12-01T00:00:00Z", "valid_until", "not after the beginning"),
    ],
)
def test_invalid_periods_are_refused(valid_from, valid_until, field, message):
    with pytest.raises(ValidityError, match=message) as raised:
        Validity.parse(valid_from, valid_until)
    assert raised.value.field == field


def test_an_end_in_the_past_is_refused():
    Validity(None, END).check_not_over(END - MICROSECOND)
    with pytest.raises(ValidityError, match="2026-12-05T16:00:00Z is in the past"):
        Validity(None, END).check_not_over(END)


def test_a_period_is_written_in_words():
    assert Validity(None, END).sentence == "until 5 December 2026, 16:00 UTC"
    assert Validity(BEGIN, END).sentence == "from 1 December 2026, 00:00 UTC until 5 December 2026, 16:00 UTC"
    assert Validity().sentence == ""


def test_the_detail_of_a_journal_line_keeps_an_early_year():
    period = Validity.parse("0137-11-08T10:22:37Z")
    assert format_period(period) == "valid 0137-11-08T10:22:37Z/.."
    assert parse_period(format_period(period)) == (period, "")


def test_the_time_of_a_question_is_now_unless_it_is_set():
    before = timezone.now()
    assert before <= question_time() <= timezone.now()
    with at_time(END) as moment:
        assert moment == question_time() == END
        with at_time():
            assert question_time() == END
        with at_time(BEGIN):
            assert question_time() == BEGIN
    with at_time() as moment:
        assert question_time() == moment
    assert question_time() > moment


@pytest.mark.parametrize("limits", LIMITS)
def test_a_row_counts_from_its_beginning_and_not_at_its_end(membership, limits):
    Membership.objects.update(valid_from=limits[0], valid_until=limits[1])
    for moment in MOMENTS:
        includes = Validity(*limits).includes(moment)
        assert Membership.objects.filter(in_force_condition(at=moment)).exists() == includes, moment
        assert Membership.objects.filter(~in_force_condition(at=moment)).exists() != includes, moment
        with at_time(moment):
            users = User.objects.filter(
                in_force_condition("memberships__"), memberships__group__name="analysts"
            )
            assert users.exists() == includes, moment
        with connection.cursor() as cursor:
            time = connection.ops.adapt_datetimefield_value(moment)
            cursor.execute(
                f"SELECT 1 FROM {Membership._meta.db_table} m WHERE {in_force_sql('m', '%s')}", [time, time]
            )
            assert bool(cursor.fetchone()) == includes, moment


def test_django_adds_and_removes_memberships_as_before(membership):
    user, group = membership.user, Group.objects.create(name="operators")
    user.groups.add(group)
    assert {(m.group, m.valid_from, m.valid_until) for m in user.memberships.all()} == {
        (membership.group, None, None),
        (group, None, None),
    }
    user.groups.set([group])
    assert list(group.user_set.all()) == [user] and not membership.group.user_set.exists()


def test_the_database_refuses_an_end_before_the_beginning(membership):
    for columns in ({"valid_from": END, "valid_until": BEGIN}, {"valid_from": END, "valid_until": END}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Membership.objects.update(**columns)


def test_the_next_change_of_time_is_the_first_limit_of_any_table(membership, django_assert_num_queries):
    assert next_change_of_time(BEGIN) is None
    entity = Entity.objects.create(
        kind="instance", key="cdap", state="live", created_at=BEGIN, changed_at=BEGIN
    )
    grant = {
        "content_object": entity,
        "permission_id": next(iter(permission_ids().values())),
        "granted_at": BEGIN,
    }
    hour = timedelta(hours=1)
    UserGrant.objects.create(user=membership.user, valid_from=BEGIN, valid_until=BEGIN + 5 * hour, **grant)
    GroupGrant.objects.create(group=membership.group, valid_from=BEGIN + 2 * hour, **grant)
    Membership.objects.update(valid_until=BEGIN + 3 * hour)
    moment, seen = BEGIN - hour, []
    while moment is not None:
        with django_assert_num_queries(1):
            moment = next_change_of_time(moment)
        seen.append(moment)
    assert seen == [BEGIN, BEGIN + 2 * hour, BEGIN + 3 * hour, BEGIN + 5 * hour, None]
