"""What a generation of rules is made of: rows with their source, and what creating and deleting does to grants."""

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from entities.vocabulary import KINDS, OperationClass, Privilege
from grants.policies.deletion_rules import NamespaceDeletion
from grants.policies.grammar import Expression, Has
from grants.policies.source import Source

__all__ = ["GeneralRule", "Generation", "Policy", "Source", "general_rules", "policies_by_operation", "table_policies",
           "without_rule"]


@dataclass(frozen=True, slots=True)
class Policy:
    """What one operation on one kind requires. `requirement` is None where the generation has no rule: then it is denied.

    advice: what to ask instead, where a missing rule has an answer elsewhere.
    """

    kind: str
    operation: str
    requirement: Expression | None
    source: Source
    advice: str = ""

    @property
    def has_rule(self) -> bool:
        return self.requirement is not None


@dataclass(frozen=True, slots=True)
class GeneralRule:
    """What a document says of a class of operations whatever the kind; None where it says nothing."""

    requirement: Expression | None
    source: Source


@dataclass(frozen=True, slots=True)
class Generation:
    """One complete set of rules.

    general: the rule for each class of operations, for kinds that the documents do not name.
    creator_receives: privileges that registering an entity gives to whoever created it. deleting_removes_grants: whether
    the grants on an entity go with it. Both carry `lifecycle_source`. deletion: how a namespace's goes through its content.
    """

    name: str
    title: str
    summary: str
    facts: str
    policies: MappingProxyType[tuple[str, str], Policy]
    general: MappingProxyType[OperationClass, GeneralRule]
    creator_receives: tuple[Privilege, ...]
    deleting_removes_grants: bool
    lifecycle_source: Source
    deletion: NamespaceDeletion

    def policy(self, kind: str, operation: str) -> Policy | None:
        """The row of that operation, a bare privilege included; None where the kind has no such operation."""
        if operation in Privilege.__members__ and kind in KINDS:
            return Policy(kind, operation, Has((Privilege[operation],)), PRIVILEGE_SOURCE)
        return self.policies.get((kind, operation)) or self._general_policy(kind, operation)

    def _general_policy(self, kind: str, operation: str) -> Policy | None:
        """The row of an operation on a deployment's own kind, by the class of the operation."""
        operation_class = KINDS[kind].class_of(operation) if kind in KINDS else None
        if operation_class is None:
            return None
        rule = self.general[operation_class]
        return Policy(kind, operation, rule.requirement, rule.source)


PRIVILEGE_SOURCE = Source("002", "Summary", "privileges on each entity are evaluated independently",
                          "a bare privilege asks only whether it is held on exactly that entity")


def policies_by_operation(policies: Iterable[Policy]) -> MappingProxyType[tuple[str, str], Policy]:
    """Index rows by (kind, operation). Raises ValueError where one is written twice."""
    policies_by_key: dict[tuple[str, str], Policy] = {}
    for policy in policies:
        place = (policy.kind, policy.operation)
        if place in policies_by_key:
            sources = f"{policies_by_key[place].source} and {policy.source}"
            raise ValueError(f"`{policy.operation}` on a {policy.kind} is ruled twice: {sources}")
        policies_by_key[place] = policy
    return MappingProxyType(policies_by_key)


def table_policies(kind: str, seed: str, name: str, *rows: tuple[Any, ...]) -> list[Policy]:
    """Rows of one seed table: each (operation or operations, requirement, row of the seed, optional note)."""
    policies = []
    for operations, requires, row, *note in rows:
        for operation in [operations] if isinstance(operations, str) else operations:
            policies.append(Policy(kind, operation, requires, Source(seed, name, row, *note)))
    return policies


def without_rule(kind: str, seed: str, note: str, *operations: str, advice: str = "") -> list[Policy]:
    """Operations of `kind` for which the generation has no rule, said once with the reason."""
    source = Source(seed, KINDS[kind].plural.capitalize(), "not named", note)
    return [Policy(kind, operation, None, source, advice) for operation in operations]


def general_rules(seed: str, place: str, silence: str, **rules: tuple[Any, ...]) -> MappingProxyType[OperationClass, GeneralRule]:
    """The general rules of a document: for each class (requirement, row); the classes left out have no rule, for `silence`."""
    rules_by_class = {}
    for operation_class in OperationClass:
        requires, row = rules.get(operation_class.value, (None, "not named"))
        rules_by_class[operation_class] = GeneralRule(requires, Source(seed, place, row, "" if requires else silence))
    return MappingProxyType(rules_by_class)
