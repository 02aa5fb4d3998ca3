"""Describe a requirement in plain English for pages and REST."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from entities.vocabulary import KINDS, Privilege, join_words, with_article
from grants.policies.explain import privileges_in_words
from grants.policies.grammar import Algebra, Expression, Parameter, Scope, fold
from grants.policies.policy import Generation, PermissionMapping, Policy

_SCOPES = {
    Scope.SELF: "the entity",
    Scope.INSTANCE: "the instance",
    Scope.ARTIFACT: "the artifact",
    Scope.DATASET_TYPE: "the dataset type",
    Scope.OWNER: "the owner",
    Scope.PARENT: "its parent",
    Scope.APPLICATION: "its application",
    Scope.NAMESPACE: "its namespace",
}


def rule_in_words(policy: Policy | None) -> str:
    """Return the requirement of a policy as a phrase, such as `READ on the entity`; empty if there is no
    rule.
    """
    return "" if policy is None or policy.requirement is None else requirement_in_words(policy.requirement)


def kinds_in_words(row: PermissionMapping, generation: Generation) -> str:
    """Return the kinds to which a row of the mapping of platform permissions applies."""
    if row.kinds:
        return join_words([KINDS[kind].plural for kind in row.kinds])
    is_only = sum(each.permission == row.permission for each in generation.platform_permissions) == 1
    return "all kinds" if is_only else "all other kinds"


def requirement_in_words(expression: Expression) -> str:
    """Return `expression` as a phrase, such as `READ or WRITE on its namespace`."""
    return fold(expression, Phrases()).words


class Phrase(NamedTuple):
    """is_list: whether the words are a list, which needs parentheses inside another list."""

    words: str
    is_list: bool = False

    @property
    def as_part(self) -> str:
        return f"({self.words})" if self.is_list else self.words


class Phrases(Algebra[Phrase]):
    """A requirement in words."""

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> Phrase:
        return Phrase(f"{privileges_in_words(privileges)} on {_SCOPES[scope]}")

    def has_at_or_below(self) -> Phrase:
        return Phrase("any privilege on the entity or on anything inside it")

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> Phrase:
        return Phrase(f"{privilege} on all live {KINDS[kind].plural if kind else 'entities'} inside it")

    def always(self) -> Phrase:
        return Phrase("only an active principal")

    def all_of(self, parts: Iterable[Phrase]) -> Phrase:
        return Phrase(join_words([part.as_part for part in parts]), is_list=True)

    def any_of(self, parts: Iterable[Phrase]) -> Phrase:
        return Phrase(join_words([part.as_part for part in parts], "or"), is_list=True)

    def given(self, parameter: Parameter, then: Callable[[], Phrase]) -> Phrase:
        return Phrase(f"if the question names {with_article(parameter.value)}, {then().words}")
