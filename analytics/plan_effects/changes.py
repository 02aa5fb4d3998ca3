"""Read changes and the data that they concern from the database, in the form that the Spark computation of
its effect needs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from analytics.spark.effects.rules import (
    ABSENT,
    AFTER,
    BEFORE,
    KNOWN,
    PERSONAL,
    EffectQuestion,
    Intention,
    marked_privilege,
)
from analytics.spark.effects.tenant import EVERYONE_ID, ChangedEntity, MarkedPrincipal, TenantChanges
from entities.address import Address
from entities.models import State
from entities.vocabulary import ANY, KINDS
from grants.change_set import ActivateGeneration
from grants.effects.changes import EffectChange, StateChange, SubtreeDeletion
from grants.effects.masks import bits_of
from grants.effects.nodes import NodeTable, SizeLimit
from grants.effects.purposes import (
    DELETING_OPERATIONS,
    AnswerQuestion,
    AnswerQuestions,
    DeleteNamespace,
    KeepPermissions,
    NamedChanges,
    Purpose,
)
from grants.effects.situations import AffectedUsers, Principal, Situation, affected_users

# the names of the pseudo-privileges for intended decisions begin with this word
INTENDED = "INTENDED"


@dataclass(frozen=True, slots=True)
class EffectInput:
    """The changes, and the question that the computation answers."""

    changes: TenantChanges
    question: EffectQuestion


def read_effect_input(changes: Sequence[EffectChange], purpose: Purpose, generation: str) -> EffectInput:
    """Return the input of the computation. Runs three queries, and one for each chunk of addresses.

    changes: those that `changes_at` returns. A change of the generation must be the only change.
    """
    affected = affected_users(changes)
    reader = _Reader(changes, affected, purpose)
    intentions = reader.intentions()
    to_generation = next(
        (change.generation.name for change in changes if isinstance(change, ActivateGeneration)), ""
    )
    question = EffectQuestion(
        generation,
        reader.states,
        affected.is_known_changed,
        tuple(intentions),
        purpose.reference.name if purpose.reference else "",
        reader.absences,
        to_generation,
    )
    return EffectInput(reader.tenant_changes(), question)


class _Reader:
    """Read the changes and number the principals and entities of the marked tenant
    (`analytics.spark.effects`).
    """

    def __init__(self, changes: Sequence[EffectChange], affected: AffectedUsers, purpose: Purpose):
        self._affected, self._purpose = affected, purpose
        is_personal = isinstance(purpose, NamedChanges | AnswerQuestions) and affected.personal is not None
        situations = {
            BEFORE: affected.before,
            AFTER: affected.after,
            PERSONAL: affected.personal if is_personal else None,
        }
        self._situations: dict[str, Situation] = {
            state: situation for state, situation in situations.items() if situation
        }
        self.states = "".join(self._situations)
        self._known = affected.before.known | affected.after.known
        self._user_ids = {
            bits: pk for (principal_type, pk), bits in affected.after.bits.items() if principal_type == "user"
        }
        self._principals = {
            principal: list(self._marked_principals(principal)) for principal in affected.after.bits
        }
        self._nodes = NodeTable(SizeLimit())
        changed = {address for _, address, _ in affected.after.added | affected.after.removed}
        of_states = [change for change in changes if isinstance(change, StateChange | SubtreeDeletion)]
        self._nodes.load_addresses(
            changed | self._wanted_addresses() | {change.address for change in of_states}
        )
        self._changed_entities = [
            entity for change in of_states if (entity := self._changed_entity(change)) is not None
        ]
        self.absences = tuple(dict.fromkeys(entity.states for entity in self._changed_entities))
        self._pseudo_grants: set[tuple[str, int, int, str]] = set()

    def tenant_changes(self) -> TenantChanges:
        """Return the changes. Call `intentions` first."""
        users = [(pk, self._affected.names[bit]) for bit, pk in self._known_users()]
        added, removed = self._affected.after.added, self._affected.after.removed
        known_members = self._add_known_groups() if self._affected.is_known_changed else []
        if self._changed_entities:
            known_members += [(pk, EVERYONE_ID) for pk, _ in users]
        return TenantChanges(
            users=users,
            memberships=[*self._memberships(), *known_members],
            principals=[
                marked_principal
                for principals in self._principals.values()
                for marked_principal in principals
            ],
            revoked=[
                (*principal, pk, str(privilege))
                for principal, address, privilege in removed - added
                if (pk := self._entity(address)) > 0
            ],
            added=[
                *self._pseudo_grants,
                *(
                    (
                        row.principal_type,
                        row.marked_id,
                        self._entity(address),
                        marked_privilege(str(privilege), AFTER),
                    )
                    for principal, address, privilege in added
                    for row in self._principals[principal]
                    if AFTER in row.states
                ),
            ],
            entities=[
                (
                    _entity_id(node.pk),
                    node.kind,
                    node.key,
                    *map(_optional_id, (node.parent, node.namespace, node.application)),
                    State.PLANNED.value,
                )
                for node in self._nodes.by_pk.values()
                if node.pk < 0
            ],
            changed_entities=self._changed_entities,
        )

    def intentions(self) -> list[Intention]:
        """Return the intended decisions, and add the pseudo-grants that mark their entities and users."""
        match self._purpose:
            case KeepPermissions():
                return []
            case NamedChanges():
                for principal, address, _ in self._affected.after.added | self._affected.after.removed:
                    for row in self._principals[principal]:
                        self._pseudo_grants.add(
                            (row.principal_type, row.marked_id, self._entity(address), INTENDED)
                        )
                # all decisions about entities with a changed state are intended
                of_states = [Intention(marked_privilege(ABSENT, states)) for states in self.absences]
                return [*([Intention(INTENDED)] if self._pseudo_grants else []), *of_states]
            case AnswerQuestion(user, operation, address):
                return list(self._wanted_by(user, [(address, operation)]))
            case AnswerQuestions(user, wanted):
                return list(self._wanted_by(user, wanted))
            case DeleteNamespace(user, namespace):
                self._mark_for(user, namespace, INTENDED)
                rules = frozenset((kind, operation) for kind in KINDS for operation in DELETING_OPERATIONS)
                return [Intention(INTENDED, rules, covers_namespace=True)]
        raise TypeError(f"{type(self._purpose).__name__} is not a purpose that a run can compute")

    def _changed_entity(self, change: StateChange | SubtreeDeletion) -> ChangedEntity | None:
        """Return the change of the state; None if the entity is live before and after it, or not live."""
        node = self._nodes.by_address[change.address]
        is_live_after = isinstance(change, StateChange) and change.state == State.LIVE
        if (node.state == State.LIVE) == is_live_after:
            return None
        # memberships and activations alone change no states
        states = AFTER if not is_live_after else self.states.replace(AFTER, "")
        has_subtree = isinstance(change, SubtreeDeletion)
        return ChangedEntity(
            _entity_id(node.pk), node.kind, states, has_subtree, has_subtree and change.removes_grants
        )

    def _wanted_by(self, user: str, wanted: Iterable[tuple[Address, str]]) -> Iterator[Intention]:
        """Yield the intentions for the wanted operations. A privilege stands for every operation.

        Operations of different kinds share pseudo-privileges, because the engine has few numbers for them.
        """
        rules: dict[str, set[tuple[str, str]] | None] = {}
        operations: dict[str, list[str]] = {}
        for address, operation in sorted(wanted, key=str):
            if operation in ANY:
                privilege = INTENDED
                rules[privilege] = None
            else:
                of_kind = operations.setdefault(address.kind, [])
                if operation not in of_kind:
                    of_kind.append(operation)
                privilege = f"{INTENDED} {of_kind.index(operation)}"
                rules.setdefault(privilege, set()).add((address.kind, operation))  # type: ignore[union-attr]
            self._mark_for(user, address, privilege)
        for privilege, of_privilege in rules.items():
            yield Intention(privilege, None if of_privilege is None else frozenset(of_privilege))

    def _mark_for(self, user: str, address: Address, privilege: str) -> None:
        if user in self._affected.names:
            pk = self._user_ids[1 << self._affected.names.index(user)]
            self._pseudo_grants.add(("user", pk, self._entity(address), privilege))

    def _wanted_addresses(self) -> set[Address]:
        match self._purpose:
            case AnswerQuestion(_, _, address):
                return {address}
            case AnswerQuestions(_, wanted):
                return {address for address, _ in wanted}
            case DeleteNamespace(_, namespace):
                return {namespace}
        return set()

    def _known_users(self) -> list[tuple[int, int]]:
        """Return (number of the bit, primary key) of the users that are known before or after the changes."""
        return [(bit, self._user_ids[1 << bit]) for bit in bits_of(self._known)]

    def _marked_principals(self, principal: Principal) -> Iterator[MarkedPrincipal]:
        """Yield the principal once. Yield a group twice if its members change: for the state before and for
        the states after the changes."""
        principal_type, pk = principal
        before, after = self._members(principal)
        if before == after:
            if before:
                yield MarkedPrincipal(principal_type, pk, pk, self.states)
            return
        if before:
            yield MarkedPrincipal(principal_type, pk, pk, BEFORE)
        if after:
            yield MarkedPrincipal(principal_type, pk, _second_id(pk), self.states.replace(BEFORE, ""))

    def _members(self, principal: Principal) -> tuple[int, int]:
        """Return the masks of the known members before and after the changes."""
        before, after = (
            situation.bits.get(principal, 0) for situation in (self._affected.before, self._affected.after)
        )
        return before & self._known, after & self._known

    def _memberships(self) -> Iterator[tuple[int, int]]:
        for principal, rows in self._principals.items():
            if principal[0] == "group":
                before, after = self._members(principal)
                for row in rows:
                    for bit in bits_of(before if BEFORE in row.states else after):
                        yield self._user_ids[1 << bit], row.marked_id

    def _add_known_groups(self) -> list[tuple[int, int]]:
        """Add a group for each set of states in which users are known, with a grant on the instance. Return
        the memberships."""
        members = []
        group_ids: dict[str, int] = {}
        for bit, pk in self._known_users():
            states = "".join(
                state for state, situation in self._situations.items() if situation.known >> bit & 1
            )
            members.append((pk, group_ids.setdefault(states, -2 - len(group_ids))))
        instance = self._nodes.instance
        assert instance is not None
        self._pseudo_grants |= {
            ("group", group_id, _entity_id(instance), marked_privilege(KNOWN, states))
            for states, group_id in group_ids.items()
        }
        return members

    def _entity(self, address: Address) -> int:
        return _entity_id(self._nodes.by_address[address].pk)


def _entity_id(pk: int) -> int:
    """Return the id of an entity in the marked tenant. pk: negative for an address that is not registered."""
    # the engine uses -1 for no entity
    return pk if pk > 0 else pk - 1


def _optional_id(pk: int | None) -> int | None:
    return None if pk is None else _entity_id(pk)


def _second_id(group_id: int) -> int:
    """Return the id of the copy of a group with the members after the changes.

    Groups of known users have the ids -2 to -8.
    """
    return -10 - group_id
