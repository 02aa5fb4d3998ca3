"""Describe a requirement in plain English for pages and REST."""

from entities.vocabulary import KINDS, join_words, with_article
from grants.policies.explain import privileges_in_words
from grants.policies.grammar import (
    AllOf,
    Always,
    AnyOf,
    Expression,
    Given,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    Scope,
    UnknownExpression,
)
from grants.policies.policy import Policy

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


def requirement_in_words(expression: Expression) -> str:
    """Return `expression` as a phrase, such as `READ or WRITE on its namespace`."""
    match expression:
        case Has(privileges, scope):
            return f"{privileges_in_words(privileges)} on {_SCOPES[scope]}"
        case HasAtOrBelow():
            return "any privilege on the entity or on anything inside it"
        case HasOnAllLive(privilege, kind):
            return f"{privilege} on all live {KINDS[kind].plural if kind else 'entities'} inside it"
        case Always():
            return "only an active principal"
        case AllOf(parts):
            return join_words([_with_parentheses(part) for part in parts])
        case AnyOf(parts):
            return join_words([_with_parentheses(part) for part in parts], "or")
        case Given(parameter, then):
            return f"if the question names {with_article(parameter.value)}, {requirement_in_words(then)}"
        case _:
            raise UnknownExpression(expression)


def _with_parentheses(part: Expression) -> str:
    words = requirement_in_words(part)
    return f"({words})" if isinstance(part, AllOf | AnyOf) else words
