"""Decide which changes of decisions are the purpose of a change; all others are beyond it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from entities.address import Address
from grants.effects.changes import EffectChange, StateChange
from grants.effects.evaluate import OperationEffect
from grants.effects.situations import AffectedUsers, Principal
from grants.policies.policy import Generation

# the operations that delete an entity
DELETING_OPERATIONS = ("delete", "drop")


class Purpose(Protocol):
    """The purpose of changes. reference: a generation with which the decisions before the changes are compared; usually None."""

    reference: Generation | None

    def intended(self, cast: AffectedUsers, address: Address, operation: str, effect: OperationEffect) -> int:
        """Return the mask of the users with an intended change of this decision."""


@dataclass
class NamedChanges:
    """Intended are the decisions about the granted or revoked addresses, for the principals of these grants and revocations.

    A change of a membership or an activation intends every decision that it changes alone. A change of a state intends all
    decisions about this entity.
    """

    changes: Iterable[EffectChange]
    reference: Generation | None = None
    _masks: dict[Address, int] | None = field(default=None, init=False)

    def intended(self, cast: AffectedUsers, address: Address, operation: str, effect: OperationEffect) -> int:
        if self._masks is None:
            self._masks = self._masks_by_address(cast)
        return self._masks.get(address, 0) | effect.personal

    def _masks_by_address(self, cast: AffectedUsers) -> dict[Address, int]:
        masks: dict[Address, int] = {}
        principals: Iterable[tuple[Principal, Address]] = {
            (principal, address) for principal, address, _ in cast.after.added | cast.after.removed}
        for principal, address in principals:
            users = cast.before.bits.get(principal, 0) | cast.after.bits.get(principal, 0)
            masks[address] = masks.get(address, 0) | users
        masks |= {change.address: cast.everyone for change in self.changes if isinstance(change, StateChange)}
        return masks


@dataclass(frozen=True)
class AnswerQuestion:
    """The intended change: one user may perform one operation on one entity. user: a name; empty if the subject is a group."""

    user: str
    operation: str
    address: Address
    reference: Generation | None = None

    def intended(self, cast: AffectedUsers, address: Address, operation: str, effect: OperationEffect) -> int:
        return _bit(cast, self.user) if (address, operation) == (self.address, self.operation) else 0


@dataclass(frozen=True)
class DeleteNamespace:
    """The intended change: one user may delete a namespace and the entities inside it."""

    user: str
    namespace: Address
    reference: Generation | None = None

    def intended(self, cast: AffectedUsers, address: Address, operation: str, effect: OperationEffect) -> int:
        is_deletion = address.namespace == self.namespace and operation in DELETING_OPERATIONS
        return _bit(cast, self.user) if is_deletion else 0


@dataclass(frozen=True)
class KeepPermissions:
    """The intended changes: users keep the permissions that they have in another generation."""

    reference: Generation | None

    def intended(self, cast: AffectedUsers, address: Address, operation: str, effect: OperationEffect) -> int:
        return effect.reference


def _bit(cast: AffectedUsers, user: str) -> int:
    return 1 << cast.names.index(user) if user in cast.names else 0
