"""`drift` and a plain reference agree on random histories."""

import random
from collections import Counter
from datetime import timedelta

import pytest
from django.utils import timezone

from analytics.analyses import ANALYSES, DRIFT_DAYS, AnalysisError
from analytics.runs.services import validated_options
from grants.history import as_of
from grants.journal import current_revision
from grants.models import GroupGrant, JournalLine, Membership, User, UserGrant
from grants.validity import in_force
from tests.support.analyses import SEEDS_AND_SIZES, sort_rows, tables_of
from tests.support.changes import add_group, add_member, add_user, change_grants, register_entity
from tests.support.random_histories import begin_history, change_at_random

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("folder"),
]


def begin(seed):
    dice = random.Random(seed)
    begin_history(dice)
    for _ in range(60):
        change_at_random(dice)
    return current_revision()


def held_at(revision, users):
    """Return the (user, entity, privilege) of active users at a revision, users by their ids in the history."""
    with as_of(revision):
        members = [(m.user_id, m.group_id) for m in Membership.objects.filter(**in_force())]
        active = set(User.objects.active_principals().values_list("pk", flat=True)) & users.keys()
        held = {
            (g.user_id, str(g.content_object), str(g.privilege))
            for g in UserGrant.objects.filter(**in_force()).select_related("content_object")
        }
        for grant in GroupGrant.objects.filter(**in_force()).select_related("content_object"):
            held |= {
                (user, str(grant.content_object), str(grant.privilege))
                for user, group in members
                if group == grant.group_id
            }
    return {(users[user], entity, privilege) for user, entity, privilege in held if user in active}


def expected_drift(first, last):
    with as_of(last):
        users = dict(User.objects.active_principals().values_list("pk", "username"))
    before, after = held_at(first, users), held_at(last, users)
    return sort_rows([(*key, key in before, key in after) for key in before ^ after], 3)


@pytest.mark.parametrize(("seed", "size"), SEEDS_AND_SIZES, indirect=["size"])
def test_drift_is_what_users_hold_at_one_of_two_revisions(spark, seed, size):
    newest = begin(seed)
    first, last = ((1, newest), (newest // 3, newest // 2), (newest // 2, newest), (5, newest))[seed]
    tables = tables_of("drift", from_revision=str(first), to_revision=str(last))
    expected = expected_drift(first, last)
    assert expected and tables["rows"] == expected
    check_lines(tables["lines"], expected, first, last)
    gained = Counter(user for user, *_, is_held in expected if is_held)
    assert {row[0]: row[1] for row in tables["people"]} == {row[0]: gained[row[0]] for row in expected}


def check_lines(lines, expected, first, last):
    """Check that each change has lines between the revisions, and that they are those of the journal."""
    # a period that ends by itself has no line
    assert {row[:3] for row in lines} <= {row[:3] for row in expected}
    for *_, revision, through, at, action, author in lines:
        assert first < revision <= last
        line = JournalLine.objects.get(revision=revision)
        assert (action, author, at[:10]) == (line.action, line.actor, f"{line.at:%Y-%m-%d}")
        assert through.partition(":")[0] in ("user", "group")


def test_a_change_names_the_line_that_made_it(spark):
    sales = "namespace:sales"
    for name in ("ann", "bob"):
        add_user(name)
    add_group("staff")
    register_entity(sales)
    change_grants(grant=[("user:ann", sales, "READ")])
    change_grants(grant=[("group:staff", sales, "WRITE")])
    first = current_revision()
    change_grants(revoke=[("user:ann", sales, "READ")])
    revoked = current_revision()
    add_member("bob", "staff")
    joined = current_revision()
    tables = tables_of("drift", from_revision=str(first))
    assert tables["rows"] == [
        ("ann", "namespace:sales", "READ", True, False),
        ("bob", "namespace:sales", "WRITE", False, True),
    ]
    assert [row[:5] for row in tables["lines"]] == [
        ("ann", "namespace:sales", "READ", revoked, "user:ann"),
        ("bob", "namespace:sales", "WRITE", joined, "group:staff"),
    ]
    # by default, the report is about the last week
    assert tables_of("drift")["rows"] == [
        ("bob", "namespace:sales", "WRITE", False, True),
    ]


def test_an_empty_journal_has_no_drift(spark):
    assert set(map(tuple, tables_of("drift").values())) == {()}


def test_one_user_without_grants_has_no_drift(spark):
    add_user("ann")
    assert set(map(tuple, tables_of("drift").values())) == {()}


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "ten", "2026-01-01", "9" * 30])
@pytest.mark.parametrize("name", ["from_revision", "to_revision"])
def test_a_revision_that_does_not_exist_is_refused(name, text):
    with pytest.raises(AnalysisError, match="is not a revision .* the journal has no lines yet") as caught:
        validated_options(ANALYSES["drift"], {name: text})
    assert caught.value.field == name
    add_user("ann")
    with pytest.raises(AnalysisError, match="is not a revision .* from 1 to 1$"):
        validated_options(ANALYSES["drift"], {name: text})


def test_the_revisions_are_in_order():
    newest = begin(1)
    with pytest.raises(AnalysisError, match="is not before revision"):
        validated_options(ANALYSES["drift"], {"from_revision": str(newest), "to_revision": "5"})


def test_a_last_revision_before_the_default_first_one_is_refused(spark):
    add_user("ann")
    register_entity("namespace:sales")
    change_grants(grant=[("user:ann", "namespace:sales", "READ")])
    last = current_revision()
    change_grants(revoke=[("user:ann", "namespace:sales", "READ")])
    JournalLine.objects.update(at=timezone.now() - timedelta(days=DRIFT_DAYS + 1))
    with pytest.raises(AnalysisError, match=f"revision {last} is before revision {current_revision()}"):
        tables_of("drift", to_revision=str(last))
    assert tables_of("drift", from_revision="1", to_revision=str(last))["rows"] == [
        ("ann", "namespace:sales", "READ", False, True)
    ]
    # by default, nothing changed in the last week
    assert tables_of("drift")["rows"] == []
