"""Test grants on patterns: what they give, now and later, and that each change of one is made as it is written."""

import random
from collections import Counter
from datetime import timedelta

import pytest
from django.utils import timezone

from entities.address import Address, parse_address
from entities.models import PATTERN, Entity, State
from entities.patterns import matches, reveals
from entities.vocabulary import READ, WRITE
from grants.evaluation.engine import answer_questions
from grants.history import as_of
from grants.journal import current_revision
from grants.models import PRINCIPAL_TYPES
from grants.policies.question import Question
from grants.validity import Validity
from grants.verification import first_fault
from tests.support.authors import all_grants, is_permitted, lines_after
from tests.support.changes import (
    add_grant,
    add_group,
    add_member,
    add_user,
    change_grants,
    delete_entity,
    recreate_entity,
    register_entity,
    remove_group,
    revoke_grant,
)
from tests.support.random_tenants import (
    all_questions,
    random_patterns,
    random_tenant,
    reference_is_permitted,
    seeds,
)
from tests.support.tenant_documents import (
    empty_database,
    entity,
    export_bytes,
    export_lines,
    grant,
    group,
    import_lines,
    user,
)

pytestmark = pytest.mark.django_db
ORDERS, EVERYTHING = "dataset:sales.orders", "dataset:sales.*"


@pytest.fixture
def people():
    """alice is a member of analysts; sales.orders is live."""
    add_user("alice")
    add_group("analysts")
    add_member("alice", "analysts")
    register_entity("namespace:sales")
    register_entity(ORDERS)


def can_read(address=ORDERS) -> bool:
    return is_permitted("alice", "read", address)


def sentence(address=ORDERS, operation="read") -> str:
    question = Question("user", "alice", operation, parse_address(address), "final", explain=True)
    (answer,) = answer_questions([question])
    return answer["context"]["sentence"]


def held_rows() -> Counter:
    """Return the derived grants: holder, privilege, address, pattern, containers, period and reason."""
    rows: Counter = Counter()
    for principal_type in PRINCIPAL_TYPES.values():
        for row in principal_type.held_grants.filter(pattern__isnull=False).select_related(
            "content_object", "pattern"
        ):
            rows[
                principal_type.name,
                getattr(row, principal_type.id_column),
                row.privilege,
                str(row.content_object),
                str(row.pattern),
                row.namespace_id,
                row.application_id,
                row.entity_kind,
                row.valid_from,
                row.valid_until,
                row.reason,
            ] += 1
    return rows


def expected_rows() -> Counter:
    """Return what follows from the grants on patterns, by the functions in Python."""
    rows: Counter = Counter()
    for principal_type in PRINCIPAL_TYPES.values():
        for row in principal_type.grants.filter(content_object__state=PATTERN).select_related(
            "content_object"
        ):
            pattern = row.content_object.address
            for place in Entity.objects.all():
                is_match = matches(pattern, place.address)
                for is_row, on in ((is_match, place), (reveals(pattern, place.address), pattern)):
                    if is_row:
                        rows[
                            principal_type.name,
                            getattr(row, principal_type.id_column),
                            row.privilege,
                            str(on),
                            str(pattern),
                            place.namespace_id,
                            place.application_id,
                            pattern.kind,
                            row.valid_from,
                            row.valid_until,
                            row.reason,
                        ] += 1
    return rows


def test_a_grant_on_a_pattern_counts_on_every_address_that_it_matches_now_and_later(people):
    assert not can_read()
    revision = current_revision()
    outcome = add_grant("group:analysts", EVERYTHING, READ)
    assert outcome.sentence == "granted 1"
    assert can_read() and can_read("dataset:sales.unregistered")
    assert not can_read("dataset:hr.salaries") and not is_permitted("alice", "write", ORDERS)
    assert [line[:4] for line in lines_after(revision)] == [("grant", "group:analysts", EVERYTHING, "READ")]
    assert sentence() == (
        f"Permitted: user:alice holds READ on {ORDERS} by the pattern `{EVERYTHING}` through group:analysts."
    )
    assert "by the pattern" in sentence("dataset:sales.unregistered")
    register_entity("dataset:sales.new")
    add_grant("user:alice", "dataset:sales.planned", WRITE)
    assert can_read("dataset:sales.new") and can_read("dataset:sales.planned")
    assert all_grants() == {
        ("group:analysts", EVERYTHING, "READ"),
        ("user:alice", "dataset:sales.planned", "WRITE"),
    }
    assert held_rows() == expected_rows() and held_rows().total() == 4
    assert not Entity.objects.filter(key__contains="*").exists()
    revoke_grant("group:analysts", EVERYTHING, READ)
    assert not can_read() and not held_rows()
    assert first_fault() is None


def test_a_direct_grant_is_named_before_a_pattern_and_stays_when_it_is_revoked(people):
    change_grants(grant=[("user:alice", ORDERS, READ), ("user:alice", EVERYTHING, READ)])
    assert "by the pattern" not in sentence()
    revoke_grant("user:alice", EVERYTHING, READ)
    assert can_read()
    add_grant("user:alice", EVERYTHING, READ)
    outcome = revoke_grant("user:alice", ORDERS, READ)
    assert outcome.sentence == "revoked 1" and can_read()


def test_a_pattern_shows_the_containers_that_its_leading_parts_match(people):
    assert not is_permitted("alice", "list", "namespace:sales")
    add_grant("user:alice", "dataset:sales.nothing*", READ)
    assert is_permitted("alice", "list", "namespace:sales")
    assert sentence("namespace:sales", "list") == (
        "Permitted: user:alice holds READ on dataset:sales.nothing*."
    )
    register_entity("namespace:hr")
    assert not is_permitted("alice", "list", "namespace:hr")
    add_grant("user:alice", "dataset:*.ds1", READ)
    register_entity("namespace:ops")
    for name in ("hr", "ops", "unregistered"):
        assert is_permitted("alice", "list", f"namespace:{name}")
    assert held_rows() == expected_rows()


def test_the_period_of_a_pattern_is_that_of_its_derived_grants(people):
    now = timezone.now()
    later = now + timedelta(days=1)
    add_grant("user:alice", EVERYTHING, READ, Validity(later, None))
    assert not can_read()
    add_grant("user:alice", EVERYTHING, READ, Validity(None, later))
    assert can_read() and held_rows() == expected_rows()


def test_a_revocation_compares_the_pattern_as_it_is_written(people):
    add_grant("user:alice", EVERYTHING, READ)
    for other in ("dataset:*", "dataset:sales.**", ORDERS):
        assert "does not hold" in " ".join(revoke_grant("user:alice", other, READ).unchanged)
    assert can_read()


def test_deletions_keep_what_a_pattern_gives_and_planned_addresses_can_be_removed(people):
    add_grant("user:alice", EVERYTHING, READ)
    delete_entity(ORDERS, generation="core")
    assert held_rows() == expected_rows()
    recreate_entity(ORDERS)
    assert can_read()
    change_grants(grant=[("user:alice", "dataset:sales.planned", WRITE)])
    change_grants(revoke=[("user:alice", "dataset:sales.planned", WRITE)])
    delete_entity("dataset:sales.planned")
    assert held_rows() == expected_rows()


def test_a_removed_group_leaves_no_derived_grant(people):
    add_grant("group:analysts", EVERYTHING, READ)
    remove_group("analysts", revokes_grants=True)
    assert not held_rows() and not can_read()


def test_a_document_carries_patterns(people):
    import_lines(
        entity("namespace:hr"),
        entity("dataset:hr.pay"),
        grant("group:analysts", "DATASET:hr.*", "READ", "WRITE"),
        grant("user:alice", "program:*.*.WorkFlow.*", "EXECUTE"),
    )
    assert can_read("dataset:hr.pay") and held_rows() == expected_rows()
    lines = export_lines()
    assert {line["entity"] for line in lines if line["type"] == "grant"} == {
        "dataset:hr.*",
        "program:*.*.workflow.*",
    }
    assert not any("*" in line["id"] for line in lines if line["type"] == "entity")
    first = export_bytes()
    assert not import_lines(first).changes
    empty_database()
    import_lines(first)
    assert export_bytes() == first and held_rows() == expected_rows()
    import_lines(entity("dataset:hr.new"))
    assert can_read("dataset:hr.new") and held_rows() == expected_rows()
    assert first_fault() is None


@pytest.mark.parametrize("seed", seeds(range(6)))
def test_after_random_changes_the_derived_grants_are_those_of_the_patterns_and_the_past_is_kept(seed):
    tenant, dice = random_tenant(seed, has_patterns=True), random.Random(seed)
    import_lines(
        *(entity(str(address), state) for address, state in tenant.entities.items()),
        *(user(name, active=is_active) for name, (is_active, _) in tenant.users.items()),
        *(group(name, *members) for name, members in tenant.groups.items()),
        *(grant(principal, str(address), str(privilege)) for principal, address, privilege in tenant.grants),
    )
    tenant.users = {name: (is_active, True) for name, (is_active, _) in tenant.users.items()}
    tenant.patterns = set()
    answers = []
    for _ in range(8):
        new = sorted(random_patterns(tenant, dice), key=str)[:3]
        old = dice.sample(sorted(tenant.patterns, key=str), k=min(2, len(tenant.patterns)))
        change_grants(grant=new, revoke=[key for key in old if key not in new])
        tenant.patterns = (tenant.patterns - set(old)) | set(new)
        address = Address("dataset", f"ns0.new{dice.randint(0, 3)}")
        if address not in tenant.entities and tenant.entities[Address("namespace", "ns0")] == State.LIVE:
            register_entity(address)
            tenant.entities[address] = State.LIVE
        assert held_rows() == expected_rows()
        questions = list(all_questions(tenant, dice=dice))[::7]
        expected = [reference_is_permitted(tenant, question) for question in questions]
        assert [answer["decision"] for answer in answer_questions(questions)] == expected
        answers.append((current_revision(), questions, expected))
    assert first_fault() is None
    for revision, questions, expected in answers:
        with as_of(revision):
            assert [answer["decision"] for answer in answer_questions(questions)] == expected
