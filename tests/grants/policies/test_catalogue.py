"""Test that the catalogue is complete: in every generation, every operation has a rule, or a note why it has
none.
"""

import pytest

from entities.vocabulary import KINDS, Privilege
from grants.policies.catalogue import GENERATIONS, UnknownGeneration, generation_by_name
from grants.policies.grammar import FactsRead, Has, Parameter, Scope
from grants.policies.policy import policies_by_operation
from tests.support.expected_generations import EXPECTED

EVERY_OPERATION = {(kind.name, operation) for kind in KINDS.values() for operation in kind.operations}
ROWS = [policy for generation in GENERATIONS.values() for policy in generation.policies.values()]


def test_the_expected_facts_cover_every_generation():
    assert list(EXPECTED) == list(GENERATIONS)


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=GENERATIONS)
def test_every_operation_has_a_policy(generation):
    assert set(generation.policies) == EVERY_OPERATION


@pytest.mark.parametrize("generation", GENERATIONS.values(), ids=GENERATIONS)
def test_every_row_names_its_seed_table_and_row(generation):
    for policy in generation.policies.values():
        assert policy.source.seed in EXPECTED[generation.name].documents, policy
        assert policy.source.table and policy.source.row, policy


def test_every_policy_without_a_rule_has_a_note():
    for policy in ROWS:
        if not policy.has_rule:
            assert policy.source.note, policy


def test_every_kind_has_the_containers_that_its_policies_check():
    for policy in ROWS:
        scopes = {leaf.scope for leaf in FactsRead(policy.requirement).held} if policy.requirement else set()
        if Scope.APPLICATION in scopes:
            assert policy.kind in ("program", "application")
        if Scope.NAMESPACE in scopes:
            assert KINDS[policy.kind].parent in ("namespace", "application") or policy.kind == "namespace"


def test_no_rule_checks_all_live_entities_twice():
    """Two sets of entities without a privilege could overlap, and their counts could then not be added."""
    for policy in ROWS:
        assert len(FactsRead(policy.requirement).all_live) <= 1, policy


def test_parameters_are_checked_only_if_the_question_names_them():
    parameter_scopes = {Scope.ARTIFACT, Scope.DATASET_TYPE, Scope.OWNER}
    for policy in ROWS:
        if policy.requirement is None:
            continue
        read = FactsRead(policy.requirement)
        assert sum(leaf.scope in parameter_scopes for leaf in read.held) == len(read.parameters), policy


def test_owners_and_dataset_types_are_used_only_by_the_generations_that_document_them():
    used_parameters = {
        name: {
            parameter
            for policy in generation.policies.values()
            if policy.requirement
            for parameter in FactsRead(policy.requirement).parameters
        }
        for name, generation in GENERATIONS.items()
    }
    assert used_parameters["core"] == used_parameters["existing"] == {Parameter.EXISTING_ARTIFACT}
    assert used_parameters["proposed"] == {
        Parameter.EXISTING_ARTIFACT,
        Parameter.NEW_ARTIFACT,
        Parameter.OWNER,
    }
    assert used_parameters["final"] == used_parameters["cdap65"] == set(Parameter)


def test_two_policies_for_the_same_operation_are_refused():
    row = ROWS[0]
    with pytest.raises(ValueError, match="has two rules"):
        policies_by_operation([row, row])


def test_a_bare_privilege_has_a_policy_for_every_kind_in_every_generation():
    for generation in GENERATIONS.values():
        for kind in KINDS:
            for privilege in Privilege:
                assert generation.policy(kind, privilege.value).requirement == Has((privilege,))
        assert generation.policy("spaceship", "READ") is None


def test_the_error_for_an_unknown_generation_lists_the_known_generations():
    with pytest.raises(UnknownGeneration, match=", ".join(GENERATIONS)):
        generation_by_name("newest")
