"""Define the parts of a generation: its policies with their sources, and the effects of creating and deleting
on grants.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from entities.address import kinds_inside
from entities.frozen import frozen
from entities.vocabulary import CONTAINER_KINDS, KINDS, OperationClass, Privilege
from grants.policies.grammar import Expression, Has, Scope


@frozen
class Source:
    """A row of a table in a seed document.

    seed: the name of the document. note: how the row was interpreted, if the document is not clear.
    """

    seed: str
    table: str
    row: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.seed}, {self.table}, {self.row}"

    def as_json(self) -> dict[str, Any]:
        members: dict[str, Any] = {"seed": self.seed, "table": self.table, "row": self.row}
        return {**members, "note": self.note} if self.note else members


# The platform deletes the kinds in this order. Other kinds come last.
NAMED_STEPS = (("application", "program"), ("dataset",), ("dataset_module",), ("stream",), ("artifact",))

# The kinds that the documents 000 to 004 do not know.
LATER_KINDS = ("profile", "system_service", "system_app_entity")


class OnUndeletable(StrEnum):
    """The effect on the other entities of a namespace if one of its entities may not be deleted."""

    STOP = "stops"
    SKIP = "passed over"


@frozen
class NamespaceDeletion:
    """The rules for deleting a namespace.

    namespace_requirement: must be met on the namespace before anything is deleted.
    entity_requirement: must be met on each live entity inside the namespace. requirement_by_kind: other
    requirements for some kinds.
    on_undeletable: whether the deletion stops at the step of an entity that may not be deleted, or skips the
    entity.
    """

    namespace_requirement: Expression
    entity_requirement: Expression
    on_undeletable: OnUndeletable
    source: Source
    requirement_by_kind: Mapping[str, Expression] = field(default_factory=lambda: MappingProxyType({}))

    def requirement_for(self, kind: str) -> Expression:
        """Return the requirement for deleting an entity of `kind` with its namespace."""
        return self.requirement_by_kind.get(kind, self.entity_requirement)


def deletion_steps() -> tuple[tuple[str, ...], ...]:
    """Return the kinds inside a namespace in the order of their deletion.

    The kinds of one step are deleted together.
    """
    named = {kind for step in NAMED_STEPS for kind in step}
    unnamed = tuple(kind for kind in kinds_inside("namespace") if kind not in named)
    return (*NAMED_STEPS, unnamed)


@frozen
class Policy:
    """A row of the catalogue: the requirement of one operation on one kind in a generation.

    requirement: None if the generation has no rule; the operation is then denied.
    advice: the question to ask instead, if there is no rule.
    """

    kind: str
    operation: str
    requirement: Expression | None
    source: Source
    advice: str = ""

    @property
    def has_rule(self) -> bool:
        return self.requirement is not None


@frozen
class GeneralRule:
    """The rule of a document for a class of operations on any kind. requirement: None if the document has no
    such rule.
    """

    requirement: Expression | None
    source: Source


@frozen
class PermissionMapping:
    """The privileges that give a permission of the platform, on entities of some kinds. Any one of them gives it.

    permission: SET:NAME. kinds: of the entity on which the permission is asked for; empty for all other kinds.
    scope: where the privilege is held. `Scope.PARENT` if the platform checks the permission on the parent.
    """

    permission: str
    kinds: tuple[str, ...]
    privileges: tuple[Privilege, ...]
    scope: Scope
    source: Source

    @property
    def requirement(self) -> Has:
        return Has(self.privileges, self.scope)


def mapping_of(mappings: Iterable[PermissionMapping], permission: str, kind: str) -> PermissionMapping | None:
    """Return the mapping of a permission on an entity of a kind: the first that names the kind, or else the one for
    all other kinds. None if the platform does not ask for the permission there.
    """
    return next(
        (row for row in mappings if row.permission == permission and (not row.kinds or kind in row.kinds)),
        None,
    )


@frozen
class Generation:
    """One complete set of rules.

    policies: by kind and operation. general: the rules for kinds that the documents do not name, by class of
    operations.
    creator_receives: the privileges that the creator of an entity receives when it is registered.
    deleting_removes_grants: whether the grants on an entity are deleted with it.
    lifecycle_source: the source of the previous two. deletion: the rules for deleting a namespace and its
    content.
    platform_permissions: their mapping, if the platform asks for permissions instead of privileges.
    """

    name: str
    title: str
    summary: str
    policies: MappingProxyType[tuple[str, str], Policy]
    general: MappingProxyType[OperationClass, GeneralRule]
    creator_receives: tuple[Privilege, ...]
    deleting_removes_grants: bool
    lifecycle_source: Source
    deletion: NamespaceDeletion
    platform_permissions: tuple[PermissionMapping, ...] = ()

    def policy(self, kind: str, operation: str) -> Policy | None:
        """Return the policy of an operation or of a bare privilege; None if the kind has no such operation."""
        policy = self.policies.get((kind, operation))
        if policy is not None:
            return policy
        if operation in Privilege.__members__ and kind in KINDS:
            return Policy(kind, operation, Has((Privilege[operation],)), PRIVILEGE_SOURCE)
        return self._general_policy(kind, operation)

    def given_permissions(self, privilege: Privilege, kind: str) -> list[str]:
        """Return the permissions that a privilege on an entity of a kind gives, in the order of `platform_permissions`.

        A permission that is checked on the parent is about the entities inside it.
        """
        return [
            permission
            for permission in dict.fromkeys(row.permission for row in self.platform_permissions)
            if (row := mapping_of(self.platform_permissions, permission, kind)) is not None
            and privilege in row.privileges
            and (row.scope is Scope.SELF or kind in CONTAINER_KINDS)
        ]

    def _general_policy(self, kind: str, operation: str) -> Policy | None:
        """Return the policy of an operation on a kind that the deployment defines; None if the kind has no
        such operation.
        """
        operation_class = KINDS[kind].operation_class(operation) if kind in KINDS else None
        if operation_class is None:
            return None
        rule = self.general[operation_class]
        return Policy(kind, operation, rule.requirement, rule.source)


def rules_digest(generation: Generation) -> str:
    """Return a short text that changes with the rules of a generation and with the kinds, not with the
    sources of policies.
    """
    content = [
        [(key, policy.requirement) for key, policy in sorted(generation.policies.items())],
        [(operation_class, rule.requirement) for operation_class, rule in sorted(generation.general.items())],
        generation.creator_receives,
        generation.deleting_removes_grants,
        generation.deletion,
        list(KINDS.items()),
    ]
    return sha256(repr(content).encode()).hexdigest()[:12]


PRIVILEGE_SOURCE = Source(
    "002",
    "Summary",
    "privileges on each entity are evaluated independently",
    "a bare privilege asks only whether it is held on exactly that entity",
)


def policies_by_operation(policies: Iterable[Policy]) -> MappingProxyType[tuple[str, str], Policy]:
    """Index policies by (kind, operation). Raise ValueError if two policies have the same key."""
    policies_by_key: dict[tuple[str, str], Policy] = {}
    for policy in policies:
        key = (policy.kind, policy.operation)
        if key in policies_by_key:
            sources = f"{policies_by_key[key].source} and {policy.source}"
            raise ValueError(f"`{policy.operation}` on {policy.kind} has two rules: {sources}")
        policies_by_key[key] = policy
    return MappingProxyType(policies_by_key)


def table_policies(kind: str, seed: str, name: str, *rows: tuple[Any, ...]) -> list[Policy]:
    """Return the policies of one seed table.

    rows: (operation or operations, requirement, row of the seed, optional note).
    """
    policies = []
    for operations, requirement, row, *note in rows:
        for operation in [operations] if isinstance(operations, str) else operations:
            policies.append(Policy(kind, operation, requirement, Source(seed, name, row, *note)))
    return policies


def without_rule(kind: str, seed: str, note: str, *operations: str, advice: str = "") -> list[Policy]:
    """Return policies without a rule for operations of `kind`. note: why there is no rule."""
    source = Source(seed, KINDS[kind].plural.capitalize(), "not named", note)
    return [Policy(kind, operation, None, source, advice) for operation in operations]


def later_kinds(seed: str) -> list[Policy]:
    """Return policies without a rule for the kinds that are younger than a document."""
    note = "CDAP has permissions on these entities since 6.5"
    return [
        policy for kind in LATER_KINDS for policy in without_rule(kind, seed, note, *KINDS[kind].operations)
    ]


def general_rules(
    seed: str, table: str, no_rule_note: str, **rules: tuple[Any, ...]
) -> MappingProxyType[OperationClass, GeneralRule]:
    """Return the general rules of a document.

    rules: (requirement, row) by class of operations. no_rule_note: why the other classes have no rule.
    """
    rules_by_class = {}
    for operation_class in OperationClass:
        requirement, row = rules.get(operation_class.value, (None, "not named"))
        rules_by_class[operation_class] = GeneralRule(
            requirement, Source(seed, table, row, "" if requirement else no_rule_note)
        )
    return MappingProxyType(rules_by_class)
