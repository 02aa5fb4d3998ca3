"""Group the operations of a kind by their requirement, and combine requirements."""

from collections.abc import Iterable, Sequence

from entities.errors import Refusal
from entities.vocabulary import ANY, CONTAINER_KINDS, KINDS, Privilege, clip
from grants.policies.grammar import AllOf, Always, AnyOf, Expression, Given, Has, HasAtOrBelow, Scope, leaves
from grants.policies.policy import Generation

OperationsByRequirement = dict[Expression, list[str]]


class UnknownOperation(Refusal, ValueError):
    """The kind has no such operation. The message lists its operations."""


def operations_by_requirement(
    generation: Generation, kind: str, operations: Iterable[str] | None = None
) -> OperationsByRequirement:
    """Return the operations of a kind that have a rule, by requirement, in the order of the vocabulary.

    operations: limits the result to these operations or bare privileges; by default, all operations of the
    kind.
    """
    grouped: OperationsByRequirement = {}
    for operation in KINDS[kind].operations if operations is None else operations:
        policy = generation.policy(kind, operation)
        if policy is not None and policy.requirement is not None:
            grouped.setdefault(policy.requirement, []).append(operation)
    return grouped


def check_operation(kind: str, operation: str) -> str:
    """Return the operation. Raise UnknownOperation if it is no operation of the kind and no privilege."""
    if operation in KINDS[kind].operations or operation in Privilege.__members__:
        return operation
    operations = ", ".join(KINDS[kind].operations) or "none"
    raise UnknownOperation(
        f"`{clip(operation)}` is not an operation of {KINDS[kind].plural}; their operations are {operations}"
    )


def any_of_requirements(requirements: Iterable[Expression], kind: str) -> Expression:
    """Return one requirement that is met if any of these is met, with as few parts as possible.

    The database then reads the grants on an address once, and not once for each operation. Only for questions
    without parameters.
    """
    privileges: dict[Scope, set[Privilege]] = {}
    others: list[Expression] = []
    requirements = list(requirements)
    for requirement in requirements:
        list(leaves(requirement))  # raises for an unknown node
    for part in _alternatives(requirements):
        if isinstance(part, HasAtOrBelow) and kind not in CONTAINER_KINDS:
            part = Has(ANY)
        if isinstance(part, Always):
            return part
        if isinstance(part, Has):
            privileges.setdefault(part.scope, set()).update(part.privileges)
        elif part not in others:
            others.append(part)
    if HasAtOrBelow() in others:
        # a grant on the container itself is also at or below it
        privileges.pop(Scope.SELF, None)
    has = [
        Has(tuple(privilege for privilege in Privilege if privilege in names), scope)
        for scope, names in privileges.items()
    ]
    parts = (*has, *(part for part in others if not _is_implied(part, has, others)))
    return parts[0] if len(parts) == 1 else AnyOf(parts)


def _alternatives(requirements: Iterable[Expression]) -> Sequence[Expression]:
    """Return the parts of nested `AnyOf` nodes and all other nodes, as one list."""
    found: list[Expression] = []
    for requirement in requirements:
        found += (
            _alternatives(requirement.parts)
            if isinstance(requirement, AnyOf)
            else [_without_parameters(requirement)]
        )
    return found


def _without_parameters(requirement: Expression) -> Expression:
    """Return the requirement for a question without parameters, in which `Given` is met."""
    if isinstance(requirement, Given):
        return Always()
    if not isinstance(requirement, AllOf):
        return requirement
    parts = tuple(
        part for part in map(_without_parameters, requirement.parts) if not isinstance(part, Always)
    )
    return parts[0] if len(parts) == 1 else AllOf(parts) if parts else Always()


def _is_implied(part: Expression, has: Sequence[Has], others: Sequence[Expression]) -> bool:
    """Return whether `part` is met only if one of the alternatives is met too."""
    if not isinstance(part, AllOf):
        return False
    for needed in part.parts:
        if isinstance(needed, Has):
            if any(
                needed.scope == wide.scope and set(needed.privileges) <= set(wide.privileges) for wide in has
            ):
                return True
            if needed.scope == Scope.SELF and HasAtOrBelow() in others:
                return True
    return False
