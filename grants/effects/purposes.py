"""Decide which changes of decisions are the purpose of a change; all others are beyond it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from entities.address import Address
from entities.vocabulary import ANY
from grants.change_set import ActivateGeneration
from grants.effects.changes import EffectChange, StateChange
from grants.effects.evaluate import OperationEffect
from grants.effects.masks import bits_of
from grants.effects.situations import AffectedUsers, Principal
from grants.policies.levels import LEVELS, Level, level_of
from grants.policies.policy import Generation

# the operations that delete an entity
DELETING_OPERATIONS = ("delete", "drop")
# of an entity with a changed grant: the strongest access level that a purpose needs there
NeededLevel = Callable[[Address], Level]


class Purpose:
    """The purpose of changes. reference: a generation with which the decisions before the changes are
    compared; usually None.
    """

    reference: Generation | None = None

    def intended_users(
        self, affected: AffectedUsers, address: Address, operation: str, effect: OperationEffect
    ) -> int:
        """Return the mask of the users with an intended change of this decision."""
        raise NotImplementedError

    def attachment(self, affected: AffectedUsers, generation: Generation) -> tuple[int, NeededLevel]:
        """Return whom changed grants bring more permissions than the purpose: a mask of users, and the level that the
        purpose needs on the entity of each grant.
        """
        return 0, lambda address: Level.SEES


@dataclass
class NamedChanges(Purpose):
    """The intended changes: decisions about the addresses of grants and revocations, for the principals of
    these.

    Also intended are all decisions that memberships and activations change by themselves, all decisions about
    an entity with a changed state, and all decisions if the generation changes.
    """

    changes: Iterable[EffectChange]
    _masks: dict[Address, int] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._is_for_all = any(isinstance(change, ActivateGeneration) for change in self.changes)

    def intended_users(
        self, affected: AffectedUsers, address: Address, operation: str, effect: OperationEffect
    ) -> int:
        if self._is_for_all:
            return affected.everyone
        if self._masks is None:
            self._masks = self._masks_by_address(affected)
        return self._masks.get(address, 0) | effect.personal

    def attachment(self, affected: AffectedUsers, generation: Generation) -> tuple[int, NeededLevel]:
        return affected.everyone, lambda address: Level.SEES

    def _masks_by_address(self, affected: AffectedUsers) -> dict[Address, int]:
        masks: dict[Address, int] = {}
        principals: Iterable[tuple[Principal, Address]] = {
            (principal, address) for principal, address, _ in affected.after.added | affected.after.removed
        }
        for principal, address in principals:
            users = affected.before.bits.get(principal, 0) | affected.after.bits.get(principal, 0)
            masks[address] = masks.get(address, 0) | users
        masks |= {
            change.address: affected.everyone for change in self.changes if isinstance(change, StateChange)
        }
        return masks


@dataclass(frozen=True)
class AnswerQuestion(Purpose):
    """The intended change: one user may perform one operation on one entity. user: a name; empty if the
    subject is a group.
    """

    user: str
    operation: str
    address: Address

    def intended_users(
        self, affected: AffectedUsers, address: Address, operation: str, effect: OperationEffect
    ) -> int:
        return _bit(affected, self.user) if (address, operation) == (self.address, self.operation) else 0

    def attachment(self, affected: AffectedUsers, generation: Generation) -> tuple[int, NeededLevel]:
        return _bit(affected, self.user), _needed_level(generation, [(self.address, self.operation)])


@dataclass(frozen=True)
class AnswerQuestions(Purpose):
    """The intended changes: one user may perform these operations. user: a name.

    wanted: (address, operation or privilege). A privilege intends every operation on its address. What the
    user gains by new memberships is intended too.
    """

    user: str
    wanted: frozenset[tuple[Address, str]]

    def intended_users(
        self, affected: AffectedUsers, address: Address, operation: str, effect: OperationEffect
    ) -> int:
        is_wanted = (address, operation) in self.wanted or any(
            (address, privilege) in self.wanted for privilege in ANY
        )
        return effect.personal | (_bit(affected, self.user) if is_wanted else 0)

    def attachment(self, affected: AffectedUsers, generation: Generation) -> tuple[int, NeededLevel]:
        return _bit(affected, self.user), _needed_level(generation, self.wanted)


@dataclass(frozen=True)
class DeleteNamespace(Purpose):
    """The intended change: one user may delete a namespace and the entities inside it."""

    user: str
    namespace: Address

    def intended_users(
        self, affected: AffectedUsers, address: Address, operation: str, effect: OperationEffect
    ) -> int:
        is_deletion = address.namespace == self.namespace and operation in DELETING_OPERATIONS
        return _bit(affected, self.user) if is_deletion else 0

    def attachment(self, affected: AffectedUsers, generation: Generation) -> tuple[int, NeededLevel]:
        return _bit(affected, self.user), lambda address: Level.ADMINISTERS


@dataclass(frozen=True)
class KeepPermissions(Purpose):
    """The intended changes: users keep the permissions that they have in another generation."""

    reference: Generation | None

    def intended_users(
        self, affected: AffectedUsers, address: Address, operation: str, effect: OperationEffect
    ) -> int:
        return effect.reference


@dataclass
class RestorePermissions(Purpose):
    """The intended changes: permissions become again what they were before a plan that is undone.

    The changed grants themselves are intended too, as in `NamedChanges`.

    changes: those that undo the plan. names: user number i has bit i in `undone`.
    undone: by address and operation, two masks: the users that the plan gave the permission, and the users
    that it took it from.
    """

    changes: Sequence[EffectChange]
    names: Sequence[str]
    undone: Mapping[tuple[Address, str], tuple[int, int]]
    _affected: AffectedUsers | None = field(default=None, init=False)
    _named: NamedChanges = field(init=False)
    _bits: list[int] = field(default_factory=list, init=False)
    _masks: dict[int, int] = field(default_factory=dict, init=False)

    def intended_users(
        self, affected: AffectedUsers, address: Address, operation: str, effect: OperationEffect
    ) -> int:
        if affected is not self._affected:
            # another time: the affected users have other bits
            bits = {name: 1 << number for number, name in enumerate(affected.names)}
            self._affected, self._named = affected, NamedChanges(self.changes)
            self._bits, self._masks = [bits.get(name, 0) for name in self.names], {}
        given, taken = self.undone.get((address, operation), (0, 0))
        restored = effect.gained & self._mask(taken) | effect.lost & self._mask(given)
        return restored | self._named.intended_users(affected, address, operation, effect)

    def _mask(self, undone: int) -> int:
        """Return the mask with the bits of the affected users. Many operations have the same mask."""
        if undone not in self._masks:
            self._masks[undone] = sum({self._bits[bit] for bit in bits_of(undone)})
        return self._masks[undone]


def _needed_level(generation: Generation, wanted: Iterable[tuple[Address, str]]) -> NeededLevel:
    """Return the strongest level of the wanted operations on an entity, its containers and its contents, where a grant can be
    needed for them. All operations of a wanted privilege are intended anyway.
    """
    at: dict[Address, Level] = {}
    inside: dict[Address, Level] = {}
    for address, operation in wanted:
        level = None if operation in ANY else level_of(generation, address.kind, operation)
        if level:
            at[address] = _stronger(level, at.get(address, level))
            for container in address.ancestors:
                inside[container] = _stronger(level, inside.get(container, level))

    def needed_level(address: Address) -> Level:
        levels = [inside.get(address), *(at.get(entity) for entity in (address, *address.ancestors))]
        return min((level for level in levels if level), key=LEVELS.index, default=Level.SEES)

    return needed_level


def _stronger(one: Level, other: Level) -> Level:
    return min(one, other, key=LEVELS.index)


def _bit(affected: AffectedUsers, user: str) -> int:
    return 1 << affected.names.index(user) if user in affected.names else 0
