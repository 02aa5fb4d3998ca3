"""The differences between two revisions are exactly the rows that are in the tables of only one of them."""

import random

import pytest

from entities.address import parse_address
from entities.models import Entity
from entities.vocabulary import CONTAINER_KINDS
from grants.history import as_of
from grants.history.differences import Span, all_differences, difference_parts
from grants.journal import current_revision
from grants.models import GroupGrant, JournalLine, Membership, UserGrant
from tests.support.random_histories import ADDRESSES, GROUPS, begin_history, change_at_random

pytestmark = pytest.mark.django_db
INSTANCE = parse_address("instance:cdap")


def facts(revision: int) -> set[tuple]:
    """Return the states, grants and memberships at a revision, as (what, principal, entity, value)."""
    with as_of(revision):
        grants = [
            *UserGrant.objects.select_related("user", "content_object"),
            *GroupGrant.objects.select_related("group", "content_object"),
        ]
        return (
            {("state", "", str(entity), entity.state) for entity in Entity.objects.all()}
            | {
                (
                    "grant",
                    str(grant.user) if isinstance(grant, UserGrant) else f"group:{grant.group.name}",
                    str(grant.content_object),
                    f"{grant.privilege} {grant.validity.sentence}".rstrip(),
                )
                for grant in grants
            }
            | {
                (
                    "membership",
                    f"user:{member.user.username}",
                    "",
                    f"group:{member.group.name} {member.validity.sentence}".rstrip(),
                )
                for member in Membership.objects.select_related("user", "group")
            }
        )


def differences(subject, before: int, after: int, **options) -> list:
    span = Span(before, after)
    return list(all_differences(difference_parts(subject, span, **options), span))


@pytest.fixture
def history(monkeypatch):
    """A random history without renames, because a difference has the current names."""
    dice = random.Random(8)
    monkeypatch.setattr("tests.support.random_histories._rename", lambda dice: None)
    begin_history(dice)
    for _ in range(50):
        change_at_random(dice)
    return dice


def test_the_differences_are_what_the_states_do_not_have_in_common(history):
    newest = current_revision()
    for before, after in [(9, newest), (newest // 3, newest // 2), (newest // 2, newest), (20, 20)]:
        then, now = facts(before), facts(after)
        for text in ADDRESSES:
            address = parse_address(text)
            rows = differences(address, before, after)
            if address.kind not in CONTAINER_KINDS:
                assert differences(address, before, after, with_contents=True) == rows
            found = {
                (row.change, row.what, row.principal, row.entity, row.value)
                for row in rows
                if row.what != "membership"
            }
            assert found == {
                (change, *fact)
                for change, only in (("gained", now - then), ("lost", then - now))
                for fact in only
                if fact[2] == text
            }
        everything = differences(INSTANCE, before, after, with_contents=True)
        assert {(row.change, row.what, row.principal, row.entity, row.value) for row in everything} <= {
            *(("gained", *fact) for fact in now - then),
            *(("lost", *fact) for fact in then - now),
        }
        for name in GROUPS:
            members = [row for row in differences(f"group:{name}", before, after) if row.what == "membership"]
            assert {(row.change, row.principal) for row in members} == {
                (change, fact[1])
                for change, only in (("gained", now - then), ("lost", then - now))
                for fact in only
                if fact[0] == "membership" and fact[3] == f"group:{name}"
            }


def test_a_difference_names_the_line_that_made_it(history):
    rows = differences(INSTANCE, 9, current_revision(), with_contents=True)
    assert len(rows) > 5
    for row in rows:
        line = JournalLine.objects.get(revision=row.revision)
        assert (row.at, row.actor, row.reason) == (line.at, line.actor, line.reason)
        assert row.revision > 9 and row.principal in (line.principal, "")
