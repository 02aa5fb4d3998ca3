"""Reading from an expression on which entities ADMIN is needed; needs no session."""

import pytest

from analytics.spark.engine.rules import AdminNeeded, admin_needed, admin_needed_to_delete_namespace
from entities.vocabulary import Privilege
from grants.policies.catalogue import GENERATIONS
from grants.policies.grammar import (
    Always,
    HasAtOrBelow,
    HasOnAllLive,
    Scope,
    UnknownExpression,
    all_of,
    any_of,
    has,
    on,
)

ADMIN, READ = Privilege.ADMIN, Privilege.READ


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_generation_says_what_deleting_a_namespace_needs(generation):
    assert admin_needed_to_delete_namespace(generation).on_namespace


def test_parts_joined_by_and_add_up():
    assert admin_needed(all_of(has(ADMIN), HasOnAllLive(ADMIN, "stream"), HasOnAllLive(ADMIN, "dataset"))) == AdminNeeded(
        True, frozenset({"stream", "dataset"}))


def test_every_kind_is_more_than_some_kinds():
    assert admin_needed(all_of(HasOnAllLive(ADMIN, "stream"), HasOnAllLive(ADMIN))) == AdminNeeded(False, None)


@pytest.mark.parametrize("expression", [
    has(READ), has(ADMIN, READ), on(Scope.INSTANCE, ADMIN), HasOnAllLive(READ), HasAtOrBelow(), Always(), None,
    any_of(has(ADMIN), HasOnAllLive(ADMIN)), all_of(has(ADMIN), any_of(has(ADMIN))),
], ids=str)
def test_a_requirement_that_is_no_count_of_admin_is_refused(expression):
    with pytest.raises(UnknownExpression):
        admin_needed(expression)
