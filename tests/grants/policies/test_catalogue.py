"""The catalogue is complete: every operation of every kind is ruled, or said to have no rule, in every generation."""

import pytest

from entities.vocabulary import KINDS, Privilege
from grants.policies.catalogue import GENERATIONS, UnknownGeneration, generation_by_name
from grants.policies.grammar import Has, HasOnAllLive, Parameter, Scope, leaves, parameters
from grants.policies.policy import policies_by_operation
from tests.support.expected_generations import EXPECTED

EVERY_OPERATION = {(kind.name, operation) for kind in KINDS.values() for operation in kind.operations}
ROWS = [policy for generation in GENERATIONS.values() for policy in generation.policies.values()]


def test_the_expected_facts_cover_every_generation():
    assert list(EXPECTED) == list(GENERATIONS)


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=GENERATIONS)
def test_every_operation_is_ruled_or_listed_as_having_no_rule(generation):
    assert set(generation.policies) == EVERY_OPERATION


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=GENERATIONS)
def test_every_row_names_its_seed_table_and_row(generation):
    for policy in generation.policies.values():
        assert policy.source.seed in EXPECTED[generation.name].documents, policy
        assert policy.source.table and policy.source.row, policy


def test_every_row_without_a_rule_says_why():
    for policy in ROWS:
        if not policy.has_rule:
            assert policy.source.note, policy


def test_every_scope_exists_for_the_kind_that_it_is_asked_of():
    for policy in ROWS:
        scopes = {leaf.scope for leaf in leaves(policy.requirement) if isinstance(leaf, Has)} if policy.requirement else set()
        if Scope.APPLICATION in scopes:
            assert policy.kind in ("program", "application")
        if Scope.NAMESPACE in scopes:
            assert KINDS[policy.kind].parent in ("namespace", "application") or policy.kind == "namespace"


def test_no_rule_looks_at_all_live_entities_twice():
    """Two sets of what lacks a privilege could overlap, and where they are only counted nobody could tell."""
    for policy in ROWS:
        ranging = [leaf for leaf in leaves(policy.requirement) if isinstance(leaf, HasOnAllLive)] if policy.requirement else []
        assert len(ranging) <= 1, policy


def test_what_a_question_brings_along_is_looked_at_only_where_it_was_given():
    brought = {Scope.ARTIFACT, Scope.DATASET_TYPE, Scope.OWNER}
    for policy in ROWS:
        if policy.requirement is None:
            continue
        unguarded = [leaf for leaf in leaves(policy.requirement) if isinstance(leaf, Has) and leaf.scope in brought]
        assert len(unguarded) == len(list(parameters(policy.requirement))), policy


def test_owners_and_custom_types_count_only_where_the_documents_know_them():
    looked_at = {name: {parameter for policy in generation.policies.values() if policy.requirement
                        for parameter in parameters(policy.requirement)} for name, generation in GENERATIONS.items()}
    assert looked_at["core"] == looked_at["existing"] == {Parameter.EXISTING_ARTIFACT}
    assert looked_at["proposed"] == {Parameter.EXISTING_ARTIFACT, Parameter.NEW_ARTIFACT, Parameter.OWNER}
    assert looked_at["final"] == set(Parameter)


def test_a_row_written_twice_is_refused():
    row = ROWS[0]
    with pytest.raises(ValueError, match="has two rules"):
        policies_by_operation([row, row])


def test_a_bare_privilege_is_a_row_of_every_kind_in_every_generation():
    for generation in GENERATIONS.values():
        for kind in KINDS:
            for privilege in Privilege:
                assert generation.policy(kind, privilege.value).requirement == Has((privilege,))
        assert generation.policy("spaceship", "READ") is None


def test_an_unknown_generation_is_refused_with_the_known_ones():
    with pytest.raises(UnknownGeneration, match=", ".join(GENERATIONS)):
        generation_by_name("newest")
