"""Explanations of denials name the grants that begin later or have ended."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from entities.address import Address, parse_address
from entities.vocabulary import Privilege
from grants.evaluation.engine import answer_questions, check_many
from grants.evaluation.inactive_grants import with_inactive_grants
from grants.models import GroupGrant, Membership, UserGrant, privilege_of
from grants.policies.explain import Attempt, Decision, InactiveGrant
from grants.policies.principals import group_text
from grants.policies.question import Question
from grants.validity import Validity, at_time
from tests.support.changes import add_grant, add_member
from tests.support.random_tenants import all_questions, random_timed_tenant, store_tenant

pytestmark = pytest.mark.django_db
ORDERS = parse_address("dataset:sales.orders")
FRIDAY, SATURDAY = datetime(2026, 12, 4, 9, tzinfo=UTC), datetime(2026, 12, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)


def _question(name: str = "out", privilege: str = "READ", type_: str = "user") -> Question:
    return Question(type_, name, privilege, ORDERS, "final", explain=True)


def _context(at: datetime, question: Question) -> dict:
    with at_time(at):
        (answer,) = answer_questions([question])
    return answer["context"]


def test_a_denial_names_when_a_grant_begins_and_when_it_ended(cast):
    add_grant("user:out", ORDERS, Privilege.READ, Validity(FRIDAY, SATURDAY))
    before, after = _context(FRIDAY - HOUR, _question()), _context(SATURDAY, _question())
    assert before["sentence"] == (
        "Denied: user:out lacks READ on dataset:sales.orders; "
        "READ on dataset:sales.orders begins on 4 December 2026, 09:00 UTC."
    )
    assert after["sentence"] == (
        "Denied: user:out lacks READ on dataset:sales.orders; "
        "READ on dataset:sales.orders ended on 5 December 2026, 00:00 UTC."
    )
    assert (
        before["not_in_force"]
        == after["not_in_force"]
        == [
            {
                "principal": "user:out",
                "entity": "dataset:sales.orders",
                "privilege": "READ",
                "valid_from": "2026-12-04T09:00:00Z",
                "valid_until": "2026-12-05T00:00:00Z",
            }
        ]
    )
    # in force, and another privilege
    for at, privilege in ((FRIDAY, "READ"), (SATURDAY, "WRITE")):
        assert "not_in_force" not in _context(at, _question(privilege=privilege))


def test_a_denial_names_when_a_membership_begins(cast):
    add_grant("group:operators", ORDERS, Privilege.READ, Validity(None, SATURDAY))
    add_member("out", "operators", Validity(FRIDAY, None))
    context = _context(FRIDAY - HOUR, _question())
    assert (
        "READ on dataset:sales.orders through group:operators begins on 4 December 2026, 09:00 UTC."
        in context["sentence"]
    )
    assert context["not_in_force"][0]["valid_until"] == "2026-12-05T00:00:00Z"
    assert "operators ended on 5 December" in _context(SATURDAY, _question())["sentence"]
    assert "ended" in _context(SATURDAY, _question("operators", type_="group"))["sentence"]


def test_a_batch_takes_one_more_query_if_an_explained_question_is_denied(cast, django_assert_num_queries):
    list(answer_questions([_question()]))
    for questions, expected in (
        ([_question("dee")], 3),
        ([_question()] * 30 + [_question("ned", "ADMIN")], 4),
    ):
        with django_assert_num_queries(expected):
            list(answer_questions(questions))


@pytest.mark.parametrize("seed", range(2))
def test_the_grants_are_those_of_a_search_in_python(seed):
    timed, dice = random_timed_tenant(seed), random.Random(seed)
    store_tenant(timed.tenant, timed.periods)
    questions = [question for question in all_questions(timed.tenant, dice=dice) if dice.random() < 0.05]
    total = 0
    for moment in dice.sample(timed.moments, 2):
        with at_time(moment):
            decisions = with_inactive_grants(check_many(questions))
            stored = _stored_inactive(moment)
        for decision in decisions:
            expected = {}
            for address, privilege in _unmet(decision):
                if rows := stored.get((decision.question.principal, address, privilege)):
                    expected[address, privilege] = min(
                        rows,
                        key=lambda row: (
                            not row.begins_later,
                            (row.time.timestamp() * (1 if row.begins_later else -1)),
                        ),
                    )
            # of several grants with the same time, any
            assert {(grant.entity, grant.privilege): grant.time for grant in decision.inactive_grants} == {
                key: grant.time for key, grant in expected.items()
            }
            total += len(expected)
    assert total


def _unmet(decision: Decision) -> set[tuple[Address, Privilege]]:
    def leaves(attempt: Attempt):
        if attempt.parts:
            for part in attempt.parts:
                yield from leaves(part)
        elif not attempt.is_met and attempt.requirement in ("has", "at or below"):
            yield from ((attempt.address, privilege) for privilege in attempt.privileges)

    return (
        set()
        if decision.is_permitted
        else {pair for attempt in decision.attempts for pair in leaves(attempt)}
    )


def _stored_inactive(at: datetime) -> dict[tuple, list[InactiveGrant]]:
    """Return the grants that count at another time, by subject, address and privilege."""
    rows: dict[tuple, list[InactiveGrant]] = {}

    def add(subject: str, holder: str, grant: UserGrant | GroupGrant, *periods: Validity) -> None:
        begin = max((period.valid_from for period in periods if period.valid_from), default=None)
        end = min((period.valid_until for period in periods if period.valid_until), default=None)
        if Validity(begin, end).includes(at) or (begin and end and begin >= end):
            return
        address, privilege = grant.content_object.address, privilege_of(grant.permission_id)
        rows.setdefault((subject, address, privilege), []).append(
            InactiveGrant(holder, address, privilege, begin, end, begin is not None and begin > at)
        )

    for grant in UserGrant.objects.select_related("user", "content_object"):
        add(str(grant.user), str(grant.user), grant, Validity(grant.valid_from, grant.valid_until))
    for grant in GroupGrant.objects.select_related("group", "content_object"):
        holder, period = group_text(grant.group.name), Validity(grant.valid_from, grant.valid_until)
        add(holder, holder, grant, period)
        for member in Membership.objects.filter(group=grant.group).select_related("user"):
            add(str(member.user), holder, grant, period, Validity(member.valid_from, member.valid_until))
    return rows
