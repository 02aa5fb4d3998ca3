"""An answer in short is the answer in full, of which the first are named and the others counted."""

import random
from functools import partial

import pytest

from entities.address import parse_address
from entities.models import Entity, State
from entities.selectors import entity_at
from grants.evaluation.engine import check, check_summary
from grants.evaluation.entity_filters import visibility_condition
from grants.evaluation.missing_summary import visible_missing_entities
from grants.evaluation.visibility import visibility_of
from grants.models import User
from grants.policies.catalogue import GENERATIONS
from grants.policies.decide import MissingEntities
from grants.policies.disclosure import ALL_LIVE, redact
from grants.policies.explain import Attempt, Decision
from grants.policies.grammar import HasOnAllLive, leaves
from grants.policies.policy import Generation
from grants.policies.question import Question
from tests.support.random_tenants import Tenant, random_tenant, store

pytestmark = pytest.mark.django_db


@pytest.fixture(params=range(4))
def tenant(request):
    made = random_tenant(request.param)
    store(made)
    made.seed = request.param
    return made


def ranging(tenant) -> list[Question]:
    """Every question about a namespace whose rule looks at all that is live in it, by every subject."""
    subjects = [("user", name) for name in (*tenant.users, "nobody")] + [("group", name) for name in tenant.groups]
    found = []
    for generation in GENERATIONS.values():
        for place in [address for address in tenant.entities if address.kind == "namespace"]:
            for operation in ("delete", "delete-all-streams", "delete-all-dataset-modules"):
                requires = generation.policy("namespace", operation).requirement
                if requires is not None and any(isinstance(leaf, HasOnAllLive) for leaf in leaves(requires)):
                    found += [Question(*subject, operation, place, generation.name) for subject in subjects]
    return found


def nodes(attempts) -> list[Attempt]:
    return [node for attempt in attempts for node in (attempt, *nodes(attempt.parts))]


def assert_shortened(short: Decision, full: Decision, most: int) -> None:
    assert (short.allowed, short.sentence, short.reason, short.source) == (full.allowed, full.sentence, full.reason, full.source)
    for one, other in zip(nodes(short.attempts), nodes(full.attempts), strict=True):
        for name in ("requirement", "met", "words", "grants", "total"):
            assert getattr(one, name) == getattr(other, name)
        assert one.missing == (other.missing[:most] if one.requirement == ALL_LIVE else other.missing)
        assert len(one.missing) + one.unlisted_count == len(other.missing)
    assert (short.missing is None) == (full.missing is None)
    if full.missing is not None:
        assert short.missing[:most] == full.missing[:most]
        assert len(short.missing) + short.unlisted_count == len(full.missing)


@pytest.mark.parametrize("most", [1, 3, 1_000])
def test_an_answer_in_short_says_what_the_answer_in_full_says(tenant, most):
    cut = 0
    for question in ranging(tenant):
        short, full = check_summary(question, most), check(question)
        assert_shortened(short, full, most)
        cut += short.unlisted_count > 0
    assert cut or most > 1


def withheld(full: Decision, seen: set) -> tuple[str, list, list]:
    """What a reader is told who sees only those: the sentence, what is missing, and of each attempt what it lacks and how much
    it looked at. By loops over lists."""
    ranged = {address for node in nodes(full.attempts) if node.requirement == ALL_LIVE for address, _ in node.missing}
    if ranged <= seen:
        return full.sentence, full.missing, [(node.missing, node.total) for node in nodes(full.attempts)]
    lacks = f"Denied: {full.question.principal} lacks privileges on entities that you may not see."
    told = []
    for node in nodes(full.attempts):
        is_cut = node.requirement == ALL_LIVE and not {address for address, _ in node.missing} <= seen
        told.append((tuple(gap for gap in node.missing if gap[0] in seen), 0) if is_cut else (node.missing, node.total))
    return full.sentence if full.allowed else lacks, None, told


def seen_of(question: Question, reader: User, generation: Generation, most: int, attempt: Attempt) -> MissingEntities | None:
    return visible_missing_entities(question, attempt, visibility_of(reader, generation, inside=entity_at(attempt.where)), most)


@pytest.mark.parametrize("few", [5_000, -1])
def test_a_reader_is_told_of_what_the_reader_sees(tenant, few, monkeypatch):
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS", few)
    monkeypatch.setattr("grants.evaluation.visibility.FEW_GRANTS_INSIDE", few)
    dice, most, hidden = random.Random(tenant.seed), 2, 0
    readers = list(User.objects.all())
    for question in ranging(tenant):
        reader, generation = dice.choice(readers), GENERATIONS[dice.choice(list(GENERATIONS))]
        seen = {entity.address for entity in Entity.objects.filter(visibility_condition(reader, generation))}
        told = redact(check_summary(question, most), partial(seen_of, question, reader, generation, most))
        sentence, missing, lacking = withheld(check(question), seen)
        assert told.sentence == sentence and (told.missing is None) == (missing is None)
        for node, (gaps, total) in zip(nodes(told.attempts), lacking, strict=True):
            expected = gaps[:most] if node.requirement == ALL_LIVE else gaps
            assert (node.missing, node.unlisted_count, node.total) == (expected, len(gaps) - len(expected), total)
        hidden += missing is None and not told.allowed
    assert hidden


def test_an_answer_in_short_takes_six_queries(tenant, django_assert_max_num_queries):
    for question in ranging(tenant)[:20]:
        with django_assert_max_num_queries(6):
            check_summary(question, 3)


@pytest.mark.parametrize("neighbour", ["NS1", "Ns1", "ns_1", "ns10"])
def test_no_neighbour_stands_among_what_is_named_however_the_database_sorts(neighbour):
    tenant = Tenant(users={"ann": (True, True)})
    for namespace in ("ns1", neighbour):
        found = [f"namespace:{namespace}", *(f"dataset:{namespace}.d{number}" for number in range(3))]
        tenant.entities |= {parse_address(address): State.LIVE for address in found}
    store(tenant)
    question = Question("user", "ann", "delete", parse_address("namespace:ns1"), "final")
    short, full = check_summary(question, 2), check(question)
    assert not full.allowed and len(full.missing) == 4
    assert_shortened(short, full, 2)
