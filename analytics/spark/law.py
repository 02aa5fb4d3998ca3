"""What deleting a namespace asks for, read from the catalogue's expression: on which entities ADMIN is needed.

INVARIANT: nothing here names a generation. The shape of the expression decides; a shape that readiness cannot count
(anything but ADMIN on the namespace and ADMIN on all live entities inside it, joined by AND) is refused.
"""

from dataclasses import dataclass

from entities.vocabulary import Privilege
from grants.policies.catalogue import generation_named
from grants.policies.expressions import AllOf, Expression, Has, HasOnAllLive, Scope, UnknownExpression


@dataclass(frozen=True, slots=True)
class AdminNeeded:
    """on_namespace: on the namespace itself. kinds_inside: on the live entities of these kinds inside it; None is every kind."""

    on_namespace: bool
    kinds_inside: frozenset[str] | None

    def __or__(self, other: "AdminNeeded") -> "AdminNeeded":
        kinds = None
        if self.kinds_inside is not None and other.kinds_inside is not None:
            kinds = self.kinds_inside | other.kinds_inside
        return AdminNeeded(self.on_namespace or other.on_namespace, kinds)


NOTHING = AdminNeeded(False, frozenset())


def admin_needed(expression: Expression | None) -> AdminNeeded:
    """Raises UnknownExpression for every node that is not a count of ADMIN."""
    match expression:
        case Has((Privilege.ADMIN,), Scope.SELF):
            return AdminNeeded(True, frozenset())
        case HasOnAllLive(Privilege.ADMIN, None):
            return AdminNeeded(False, None)
        case HasOnAllLive(Privilege.ADMIN, kind):
            return AdminNeeded(False, frozenset({kind}))
        case AllOf(parts):
            needed = NOTHING
            for part in parts:
                needed |= admin_needed(part)
            return needed
    raise UnknownExpression(expression)


def admin_needed_to_delete_namespace(generation: str) -> AdminNeeded:
    return admin_needed(generation_named(generation).policy("namespace", "delete").requires)
