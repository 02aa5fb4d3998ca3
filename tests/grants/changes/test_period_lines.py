"""Test the journal lines about periods that began or ended: one each, in bounded transactions, also if the
clock is set back.
"""

import io
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from authzconsole.tasks import write_lines_of_periods
from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.changes import period_lines
from grants.changes.period_lines import write_period_lines
from grants.history.periods import catch_up
from grants.journal import current_revision
from grants.models import JournalLine, Membership, UserGrant
from grants.models.history import UserGrantPeriod
from grants.validity import Validity, format_time
from tests.support.authors import lines_after
from tests.support.changes import add_member, change_grants
from tests.support.tenant_documents import entity, import_lines, user

pytestmark = pytest.mark.django_db
ORDERS = parse_address("dataset:sales.orders")
START = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
BEGIN, END = START + timedelta(hours=1), START + timedelta(hours=2)
READ, GROUP = ("user:ann", str(ORDERS), "READ"), "group:staff"


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A clock that tests set. It begins at START."""
    clock = {"now": START}
    monkeypatch.setattr(timezone, "now", lambda: clock["now"])
    import_lines(entity(str(ORDERS)), user("ann"), '{"type":"group","name":"staff","members":[]}')
    # the first task only notes where to begin
    assert write_period_lines() == 0
    return clock


def give(valid_from=None, valid_until=None, privileges=(Privilege.READ,)):
    change_grants(
        grant=[("user:ann", ORDERS, name, Validity(valid_from, valid_until)) for name in privileges]
    )
    return current_revision()


def test_each_period_that_begins_or_ends_has_one_line(clock):
    add_member("ann", "staff", Validity(None, END))
    revision = give(BEGIN, END)
    assert write_period_lines() == 0 and current_revision() == revision
    clock["now"] = BEGIN
    assert write_period_lines() == 1
    clock["now"] = END
    write_lines_of_periods()
    assert write_period_lines() == 0
    period = f"valid {format_time(BEGIN)}/{format_time(END)}"
    assert lines_after(revision) == [
        ("begin", *READ, period),
        ("expire", *READ, period),
        ("expire", "user:ann", "", "", f"valid ../{format_time(END)}; {GROUP}"),
    ]
    assert set(JournalLine.objects.filter(revision__gt=revision).values_list("actor", flat=True)) == {
        "periods"
    }
    # nothing is deleted, and neither the verification nor the history sees a change
    assert UserGrant.objects.exists() and Membership.objects.exists()
    call_command("verify_journal", stdout=io.StringIO())
    catch_up()
    assert UserGrantPeriod.objects.get().until_revision is None


def test_many_periods_that_end_together_are_written_in_small_transactions(clock, monkeypatch):
    monkeypatch.setattr(period_lines, "LINES_PER_TRANSACTION", 2)
    sizes, write_batch = [], period_lines._write_batch
    monkeypatch.setattr(period_lines, "_write_batch", lambda: sizes.append(write_batch()) or sizes[-1])
    add_member("ann", "staff", Validity(None, END))
    revision = give(None, END, list(Privilege))
    clock["now"] = END + timedelta(seconds=5)
    assert write_period_lines() == 5 and max(sizes) == 2
    assert len(set(lines_after(revision))) == len(lines_after(revision)) == 5


def test_a_stopped_task_continues_where_it_stopped(clock, monkeypatch):
    monkeypatch.setattr(period_lines, "LINES_PER_TRANSACTION", 1)
    revision = give(None, END, list(Privilege))
    clock["now"] = END
    assert period_lines._write_batch() == 1
    assert write_period_lines() == 3
    assert {line[3] for line in lines_after(revision)} == set(Privilege)


def test_a_clock_that_is_set_back_repeats_no_line_and_gives_none_an_earlier_time(clock):
    revision = give(BEGIN, END)
    clock["now"] = END
    assert write_period_lines() == 2
    for moment in (START, BEGIN, END):
        clock["now"] = moment
        assert write_period_lines() == 0
    later = END + timedelta(hours=1)
    clock["now"] = START
    give(None, later)
    clock["now"] = later
    assert write_period_lines() == 1
    times = list(
        JournalLine.objects.filter(revision__gt=revision).order_by("revision").values_list("at", flat=True)
    )
    assert times == sorted(times) and times[0] >= END


def test_an_extended_grant_expires_again_and_a_late_one_has_no_line_of_its_beginning(clock):
    revision = give(None, END)
    clock["now"] = END
    assert write_period_lines() == 1
    give(BEGIN, END + timedelta(hours=1))
    assert write_period_lines() == 0
    clock["now"] = END + timedelta(hours=1)
    assert write_period_lines() == 1
    assert [line[0] for line in lines_after(revision)] == ["expire", "grant", "expire"]


def test_nothing_due_takes_two_queries_and_no_lock(clock, django_assert_num_queries):
    give(None, END)
    write_period_lines()
    with django_assert_num_queries(2):
        assert write_period_lines() == 0
