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


Facts = dict[tuple[str, str, str, str], str]


def facts(revision: int) -> Facts:
    """Return the states, grants and memberships at a revision: by (what, principal, entity, value), the value with its
    period. A period that changes is no difference.
    """
    with as_of(revision):
        grants = [
            *UserGrant.objects.select_related("user", "content_object"),
            *GroupGrant.objects.select_related("group", "content_object"),
        ]
        found = {("state", "", str(entity), entity.state): entity.state for entity in Entity.objects.all()}
        for grant in grants:
            holder = str(grant.user) if isinstance(grant, UserGrant) else f"group:{grant.group.name}"
            key = ("grant", holder, str(grant.content_object), str(grant.privilege))
            found[key] = f"{grant.privilege} {grant.validity.sentence}".rstrip()
        for member in Membership.objects.select_related("user", "group"):
            key = ("membership", f"user:{member.user.username}", "", f"group:{member.group.name}")
            found[key] = f"{key[-1]} {member.validity.sentence}".rstrip()
        return found


def expected(then: Facts, now: Facts) -> set[tuple]:
    """Return (change, what, principal, entity, value) of what only one of two states has."""
    return {
        (change, *key[:3], facts[key])
        for change, facts, other in (("gained", now, then), ("lost", then, now))
        for key in facts.keys() - other.keys()
    }


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
        changed = expected(facts(before), facts(after))
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
            assert found == {fact for fact in changed if fact[3] == text}
        everything = differences(INSTANCE, before, after, with_contents=True)
        assert {(row.change, row.what, row.principal, row.entity, row.value) for row in everything} <= changed
        for name in GROUPS:
            members = [row for row in differences(f"group:{name}", before, after) if row.what == "membership"]
            assert {(row.change, row.principal) for row in members} == {
                (change, principal)
                for change, what, principal, _, value in changed
                if what == "membership" and value.startswith(f"group:{name}")
            }


def test_a_difference_names_the_line_that_made_it(history):
    rows = differences(INSTANCE, 9, current_revision(), with_contents=True)
    assert len(rows) > 5
    for row in rows:
        line = JournalLine.objects.get(revision=row.revision)
        assert (row.at, row.actor, row.reason) == (line.at, line.actor, line.reason)
        assert row.revision > 9 and row.principal in (line.principal, "")
