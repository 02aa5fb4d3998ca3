"""Grants and memberships outside their validity do not exist for any evaluator, at random times and at the
limits themselves.
"""

import random
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from entities.address import Address, parse_address
from entities.models import Entity, State
from entities.vocabulary import KINDS, Privilege
from grants.access.what_can import all_permissions
from grants.access.who_can import all_access
from grants.change_set import Grant, Join, Revoke
from grants.effects.effect import effect_of
from grants.evaluation.authzen_search import search_entities, search_principals
from grants.evaluation.engine import check, check_many
from grants.evaluation.entity_filters import visibility_condition
from grants.evaluation.facts import gather_facts
from grants.evaluation.visibility import visibility_of
from grants.history import as_of
from grants.journal import current_revision
from grants.management.commands.decide import answers_in_order
from grants.models import User, UserGrant
from grants.policies.catalogue import GENERATIONS
from grants.policies.decide import is_permitted
from grants.policies.principals import group_text, written_subject
from grants.policies.question import Question
from grants.policies.wire import decision_as_json
from grants.validity import Validity, at_time
from tests.support.changes import add_grant, add_user, change_grants, revoke_grant
from tests.support.random_tenants import (
    Tenant,
    all_questions,
    changed_tenant,
    permitted_decisions,
    random_timed_tenant,
    reference_is_permitted,
    store_tenant,
)

pytestmark = pytest.mark.django_db
ORDERS = parse_address("dataset:sales.orders")
END = datetime(2026, 12, 5, 16, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def _question(name: str, **context) -> Question:
    return Question("user", name, "READ", ORDERS, "final", **context)


@pytest.mark.parametrize("seed", range(3))
def test_every_evaluator_ignores_what_is_not_in_force(seed):
    timed, dice = random_timed_tenant(seed, has_roles=True), random.Random(seed)
    store_tenant(timed.tenant, timed.periods)
    questions = [question for question in all_questions(timed.tenant, dice=dice) if dice.random() < 0.1]
    bodies = []
    for moment in dice.sample(timed.moments, 3):
        tenant = timed.at(moment)
        expected = [reference_is_permitted(tenant, question) for question in questions]
        assert True in expected and False in expected
        with at_time(moment):
            assert [
                is_permitted(question, facts)
                for question, facts in zip(questions, gather_facts(questions), strict=True)
            ] == expected
            assert [decision.is_permitted for decision in check_many(questions)] == expected
            _check_lists(tenant, dice)
            _check_effect(tenant, dice)
        bodies += [
            (_as_json(question, moment), is_met) for question, is_met in zip(questions, expected, strict=True)
        ]
    # the questions about all moments in one batch
    dice.shuffle(bodies)
    answers = answers_in_order([body for body, _ in bodies], "final")
    assert [answer["decision"] for answer in answers] == [is_met for _, is_met in bodies]


def _as_json(question: Question, moment: datetime) -> dict:
    context = {
        "at": moment.isoformat(),
        "generation": question.generation,
        "artifact_is_new": question.artifact_is_new,
    }
    for name in ("artifact", "dataset_type", "owner"):
        if getattr(question, name) is not None:
            context[name] = str(getattr(question, name))
    subject_type, subject = written_subject(question.subject_type, question.subject)
    return {
        "subject": {"type": subject_type, "id": subject},
        "action": {"name": question.operation},
        "resource": {"type": question.target.kind, "id": question.target.key},
        "context": context,
    }


def _check_lists(tenant: Tenant, dice: random.Random) -> None:
    """Compare list filters, searches, who-can and what-can with the reference."""
    generation = GENERATIONS[dice.choice(sorted(GENERATIONS))]
    live = [
        address
        for address, state in tenant.entities.items()
        if state == State.LIVE and KINDS[address.kind].operations
    ]
    user = User.objects.filter(
        username__in=[name for name, status in tenant.users.items() if all(status)]
    ).first()

    def permits(address, operation: str, type_="user", name=user.username) -> bool:
        return reference_is_permitted(tenant, Question(type_, name, operation, address, generation.name))

    visible = {entity.address for entity in Entity.objects.filter(visibility_condition(user, generation))}
    assert visible == {
        address
        for address in tenant.entities
        if any(
            permits(address, operation)
            for operation in ("list", "get")
            if operation in KINDS[address.kind].operations
        )
    }
    seen = Entity.objects.filter(visibility_of(user, generation).first_rows)
    assert {entity.address for entity in seen} == visible
    assert list(all_permissions("user", user.username, generation)) == sorted(
        (str(address), operation)
        for address in live
        for operation in KINDS[address.kind].operations
        if permits(address, operation)
    )
    for address in dice.sample(live, 3):
        operation = dice.choice(sorted(KINDS[address.kind].operations))
        assert [
            (access.user, sorted(access.ways)) for access in all_access(address, generation, [operation])
        ] == [(name, [operation]) for name in sorted(tenant.users) if permits(address, operation, name=name)]
        question = Question("user", user.username, operation, _kind_of(address), generation.name)
        assert search_entities(question, after="", max_rows=100).ids == sorted(
            other.key for other in tenant.entities if other.kind == address.kind and permits(other, operation)
        )
        found = [
            name
            for prefix in ("", "role:")
            for name in search_principals(
                Question("group", prefix, operation, address, generation.name), after="", max_rows=100
            ).ids
        ]
        assert found == sorted(name for name in tenant.groups if permits(address, operation, "group", name))


def _kind_of(address: Address) -> Address:
    """Return the target of a search for entities of the same kind."""
    return Address(address.kind, "")


def _check_effect(tenant: Tenant, dice: random.Random) -> None:
    """Compare the effect of a grant, a revocation and a membership with the reference before and after."""
    address = dice.choice([address for address, state in tenant.entities.items() if state == State.LIVE])
    user, group = dice.choice(sorted(tenant.users)), dice.choice(sorted(tenant.groups))
    changes = [
        Grant(f"user:{user}", address, Privilege.ADMIN),
        Revoke(group_text(group), address, Privilege.READ),
        Join(user, group),
    ]
    before, after = (permitted_decisions(each, "final") for each in (tenant, changed_tenant(tenant, changes)))
    assert {
        ((row.user, parse_address(row.entity), row.operation), row.after)
        for row in effect_of(changes, GENERATIONS["final"]).rows()
    } == {(decision, decision in after) for decision in before ^ after}


def test_an_explanation_names_the_end_of_the_grant(cast):
    add_grant("user:out", ORDERS, Privilege.READ)
    UserGrant.objects.filter(user=cast["out"]).update(valid_until=END)
    decision = check(_question("out", explain=True))
    assert (
        decision.sentence
        == "Permitted: user:out holds READ on dataset:sales.orders until 5 December 2026, 16:00 UTC."
    )
    (attempt,) = decision_as_json(decision)["context"]["attempts"]
    assert attempt["grants"] == [
        {
            "principal": "user:out",
            "entity": "dataset:sales.orders",
            "privilege": "READ",
            "valid_until": "2026-12-05T16:00:00Z",
        }
    ]
    with at_time(END - MICROSECOND):
        assert check(_question("out")).is_permitted
    with at_time(END):
        decision = check(_question("out"))
        assert decision.sentence == "Denied: user:out lacks READ on dataset:sales.orders."


def test_a_question_about_the_past_is_about_the_time_of_its_revision_unless_it_names_another(cast):
    add_user("julia")
    begin, hour = timezone.now().replace(microsecond=0) - timedelta(hours=1), timedelta(hours=1)
    grant = ("user:julia", ORDERS, Privilege.READ)
    change_grants(grant=[(*grant, Validity(begin, begin + 3 * hour))])
    first = current_revision()
    # the period is replaced, then the grant is revoked
    change_grants(grant=[(*grant, Validity(begin + 2 * hour, None))])
    revoke_grant(*grant)

    def decisions(revision: int) -> list[bool]:
        answers = []
        for at in (None, begin - MICROSECOND, begin, begin + 2 * hour, begin + 3 * hour):
            with as_of(revision, at):
                answers.append(check(_question("julia")).is_permitted)
        return answers

    assert [decisions(revision) for revision in (first, first + 1, first + 2)] == [
        [True, False, True, True, False],
        [False, False, False, True, True],
        [False] * 5,
    ]
    assert not check(_question("julia")).is_permitted
