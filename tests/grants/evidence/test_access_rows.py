"""The rows of evidence say for every revision what the evaluators say about the state at that revision."""

import contextlib
import random

import pytest
from django.conf import settings

from entities.address import parse_address
from entities.vocabulary import KINDS
from grants.active_generation import active_generation
from grants.evaluation.facts import gather_facts
from grants.evidence.access_rows import access_periods
from grants.evidence.grant_periods import TooMuchEvidence
from grants.history import as_of
from grants.history.periods import catch_up
from grants.journal import current_revision
from grants.models import User
from grants.models.history import EntityPeriod, UserPeriod
from grants.policies.decide import is_permitted
from grants.policies.question import Question
from tests.support.random_histories import ADDRESSES, begin_history, change_at_random

pytestmark = pytest.mark.django_db


def make_history(seed):
    rng = random.Random(seed)
    begin_history(rng)
    for _ in range(40):
        change_at_random(rng)
    catch_up()
    return rng


def last_names(bounds):
    """Return the last name in the period of each user, by revision and the name at that revision."""
    periods = list(
        UserPeriod.objects.filter(from_revision__lt=bounds[1])
        .order_by("from_revision")
        .values_list("user", "name", "from_revision", "until_revision")
    )
    last = {user: name for user, name, *_ in periods}
    return {
        (revision, f"user:{name}"): f"user:{last[user]}"
        for user, name, start, end in periods
        for revision in range(start, end or bounds[1])
    }


def permitted_now(addresses):
    """Return (user, operation, address) of everything that is permitted now."""
    generation = active_generation().name
    questions = [
        Question("user", name, operation, parse_address(address), generation)
        for name in User.objects.values_list("username", flat=True)
        for address in addresses
        for operation in KINDS[address.partition(":")[0]].operations
    ]
    return {
        (f"user:{question.subject}", question.operation, str(question.target))
        for question, facts in zip(questions, gather_facts(questions), strict=True)
        if is_permitted(question, facts)
    }


@pytest.mark.parametrize("seed", range(8))
def test_the_rows_agree_with_the_decisions_at_every_revision(seed):
    rng = make_history(seed)
    newest = current_revision()
    # of an address that was never registered, only patterns could give something
    known = {f"{kind}:{key}" for kind, key in EntityPeriod.objects.values_list("kind", "key")}
    addresses = [address for address in (*ADDRESSES, "instance:cdap") if address in known]
    start = rng.randint(1, newest // 2)
    bounds = (start, newest + 1)
    listed = {revision: set() for revision in range(*bounds)}
    for of_entity in access_periods(map(parse_address, addresses), bounds, settings.DEFAULT_GENERATION):
        for rows in of_entity.rows_by_user():
            for row in rows:
                for revision in range(*row.range):
                    listed[revision].add((row.user, row.operation, str(of_entity.entity)))
    assert any(listed.values())
    names = last_names(bounds)
    for revision in range(*bounds):
        with as_of(revision):
            permitted = permitted_now(addresses)
        assert listed[revision] == {(names[revision, user], *rest) for user, *rest in permitted}, revision


def test_each_path_is_a_grant_that_existed_in_the_range():
    make_history(7)
    bounds = (1, current_revision() + 1)
    for of_entity in access_periods(map(parse_address, ADDRESSES), bounds, settings.DEFAULT_GENERATION):
        for rows in of_entity.rows_by_user():
            for row in rows:
                for path in row.paths:
                    assert path.grant.range[0] < row.range[1] and row.range[0] < path.grant.range[1]
                    assert path.grant.started.revision == path.grant.range[0]
                    assert (path.membership is None) == (path.principal == row.user)


def test_a_period_with_too_many_grants_is_refused(monkeypatch):
    make_history(1)
    monkeypatch.setattr("grants.evidence.grant_periods.MAX_PERIODS", 0)
    with pytest.raises(TooMuchEvidence, match="choose a shorter time"):
        next(
            access_periods(
                [parse_address("instance:cdap")], (1, current_revision() + 1), settings.DEFAULT_GENERATION
            )
        )


@pytest.mark.parametrize("seed", range(3))
def test_entities_that_are_read_together_have_the_rows_of_each_of_them(
    seed, monkeypatch, django_assert_max_num_queries
):
    rng = make_history(seed)
    bounds = (rng.randint(1, 5), current_revision() + 1)
    addresses = sorted(map(parse_address, ADDRESSES), key=str)
    expected = [rows_of([address], bounds) for address in addresses]
    with django_assert_max_num_queries(3 + 12 * len({address.kind for address in addresses})):
        assert rows_of(addresses, bounds) == [row for rows in expected for row in rows] != []
    # so many that not all of them can be read together
    for limit in (8, 4):
        monkeypatch.setattr("grants.evidence.grant_periods.MAX_PERIODS", limit)
        for address, rows in zip(addresses, expected, strict=True):
            with contextlib.suppress(TooMuchEvidence):
                assert rows_of([address, address], bounds) == [*rows, *rows]


def rows_of(addresses, bounds):
    return [
        (str(of_entity.entity), row.user, row.operation, row.range, sorted(map(repr, row.paths)))
        for of_entity in access_periods(addresses, bounds, settings.DEFAULT_GENERATION)
        for rows in of_entity.rows_by_user()
        for row in rows
    ]
