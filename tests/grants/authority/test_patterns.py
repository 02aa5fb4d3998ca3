"""A grant on a pattern does not avoid a check that a grant on an address obeys."""

import pytest

from entities.address import parse_grantable
from grants.authority.rights import can_change_some_grants
from grants.errors import GrantError, GuardrailHolds, SecondPersonRequired
from grants.evaluation.engine import check
from grants.guardrails.evaluation import violations
from grants.policies.question import Question
from tests.support.authors import author_named, database_state
from tests.support.cast import create_sample_tenant
from tests.support.changes import add_grant, add_group, add_member, register_entity, revoke_grant
from tests.support.guardrails import FORBID, add_guardrail

pytestmark = pytest.mark.django_db
PATTERN = "dataset:sales.*"


@pytest.fixture
def cast():
    return create_sample_tenant()


def test_a_delegate_cannot_grant_on_a_pattern(cast, settings):
    settings.DELEGATION = True
    assert not can_change_some_grants(cast["ned"], parse_grantable(PATTERN))
    before = database_state()
    for pattern in (PATTERN, "namespace:sal?s", "namespace:*"):
        with pytest.raises(GrantError):
            add_grant("user:out", pattern, "READ", author=author_named("ned"))
    assert database_state() == before


def test_administrators_by_a_pattern_are_delegates(cast, settings):
    settings.DELEGATION = True
    add_grant("user:out", "dataset:sales.o*", "ADMIN")
    add_grant("user:dee", "dataset:sales.orders", "WRITE", author=author_named("out"))


def test_a_guardrail_refuses_what_a_pattern_would_give(cast):
    add_guardrail("no-writers", FORBID)
    before = database_state()
    for pattern in (PATTERN, "dataset:*", "dataset:s*s"):
        with pytest.raises(GuardrailHolds):
            add_grant("user:out", pattern, "WRITE")
    assert database_state() == before
    add_grant("user:out", "dataset:hr.*", "WRITE")


def test_a_guardrail_refuses_a_registration_that_a_pattern_turns_into_a_violation(cast):
    add_grant("user:out", "stream:sales.*", "WRITE")
    add_guardrail("no-writers", FORBID)
    with pytest.raises(GuardrailHolds):
        register_entity("stream:sales.clicks")
    # this grant to another user would register the address
    with pytest.raises(GuardrailHolds):
        add_grant("user:dee", "stream:sales.clicks", "READ")


def test_a_guardrail_about_the_instance_holds_beside_a_pattern_of_instances(cast):
    add_grant("user:out", "instance:*", "READ")
    add_group("writers")
    add_grant("group:writers", "dataset:hr.salaries", "WRITE")
    add_guardrail("no-writers", {"forbid": {"privileges": ["WRITE"], "within": "instance:cdap"}})
    with pytest.raises(GuardrailHolds):
        add_member("dee", "writers")


def test_a_guardrail_requires_no_holders_of_a_pattern(cast):
    add_guardrail("readers", {"require": {"privilege": "READ", "on": "kind:dataset", "at_least": 5}})
    add_grant("user:dee", PATTERN, "READ")
    assert PATTERN not in {row.entity for row in violations()}


def test_four_eyes_count_what_a_pattern_matches(cast, settings):
    settings.FOUR_EYES, settings.FOUR_EYES_MAX_ITEMS, settings.PROTECTED_NAMESPACES = True, 3, ["hr"]
    ada = author_named("ada")
    add_grant("user:out", "dataset:sales.o*", "READ", author=ada)
    for pattern in (PATTERN, "dataset:hr.nothing*", "dataset:*.nothing", "namespace:h?"):
        with pytest.raises(SecondPersonRequired):
            add_grant("user:out", pattern, "READ", author=ada)
    revoke_grant("user:out", "dataset:sales.o*", "READ", author=ada)


def test_a_new_member_of_a_group_with_a_pattern_about_a_protected_namespace_needs_a_second_person(
    cast, settings
):
    # nothing has this name yet
    add_grant("group:operators", "dataset:hr.later*", "READ")
    settings.FOUR_EYES, settings.PROTECTED_NAMESPACES = True, ["hr"]
    with pytest.raises(SecondPersonRequired, match="protected namespace hr"):
        add_member("dee", "operators", author=author_named("ada"))


def test_grants_on_patterns_one_after_the_other_count_what_they_match(cast, settings):
    settings.FOUR_EYES, settings.FOUR_EYES_MAX_ITEMS = True, 5
    ada = author_named("ada")
    add_grant("user:out", "dataset:sales.o*", "READ", author=ada)
    add_grant("user:dee", "dataset:sales.o*", "READ", author=ada)
    # each of the three matches one address
    with pytest.raises(SecondPersonRequired, match="in the last hour, more than 5 items"):
        add_grant("user:grp", "dataset:sales.o*", "READ", author=ada)


def test_an_inactive_user_holds_nothing_by_a_pattern(cast):
    add_grant("user:ina", PATTERN, "READ")
    for name in ("orders", "unregistered"):
        target = parse_grantable(f"dataset:sales.{name}")
        assert not check(Question("user", "ina", "read", target, "final")).is_permitted
