"""The rules and the counters of the effect of a plan."""

import numpy as np
import pytest

from analytics.spark.effects.rules import EffectQuestion, Intention, effect_rules, subsets
from analytics.spark.effects.tallies import counts_by_position
from analytics.spark.engine.evaluate import evaluate_requirement
from analytics.spark.engine.rules import compile_rules, number_kinds
from grants.policies.catalogue import GENERATIONS


@pytest.mark.parametrize("row_count", [1, 2, 3, 7, 64, 101])
def test_counts_by_position_counts_the_rows_with_each_bit(row_count):
    words = np.random.default_rng(row_count).integers(0, 2**64, (row_count, 3), np.uint64)
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    assert counts_by_position(words).tolist() == bits.sum(axis=0).tolist()


def test_the_subsets_have_the_order_of_the_states():
    assert subsets("ba") == ["b", "a", "ba"]
    assert subsets("bap") == ["b", "a", "p", "ba", "bp", "ap", "bap"]


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("states", ["ba", "bap"])
@pytest.mark.parametrize("reference", ["", "core"])
def test_every_changed_answer_belongs_to_exactly_one_rule(generation, states, reference):
    question = EffectQuestion(generation, states, True, (Intention("INTENDED"),), reference)
    rule_set = effect_rules(question)
    rules = compile_rules(rule_set, number_kinds(rule_set))
    facts = np.random.default_rng(1).integers(0, 2**64, (len(rules.facts), 20), np.uint64)
    changes = {}
    for rule in rule_set.rules:
        before, after = (
            evaluate_requirement(requirement, facts) for requirement in (rule.before, rule.after)
        )
        changes.setdefault((rule.kind, rule.operation), {})[rule.is_intended] = before, after
    for of_operation in changes.values():
        (first, between), (also_between, last) = of_operation[True], of_operation[False]
        assert np.array_equal(between, also_between)
        assert not ((first ^ between) & (between ^ last)).any()
