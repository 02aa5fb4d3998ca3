"""Read a tenant namespace by namespace, and evaluate its decisions in two generations: the holders of each
privilege, and the users with each permission, are masks of all users.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import NamedTuple

from entities.address import Address, instance_address
from entities.models import Entity, State
from entities.vocabulary import ANY, CONTAINER_KINDS, Privilege
from grants.effects.holders import NUMBERS
from grants.effects.kind_rules import RulePair
from grants.effects.masks import UserMasks, users_meeting
from grants.effects.nodes import NODE_COLUMNS, Node, order_of
from grants.effects.situations import AffectedUsers
from grants.models import PRINCIPAL_TYPES, permission_ids
from grants.policies.decide import EntitiesWithoutPrivilege, HeldGrant
from grants.policies.grammar import Scope
from grants.validity import in_force

NO_USERS = (0,) * len(ANY)
ROWS_PER_READ = 10_000

# primary key of the entity, and number of the privilege
GrantKey = tuple[int, int]
# by namespace, and by address and privilege: the mask of users
GrantMasks = dict[str, dict[tuple[Address, Privilege], int]]


@dataclass
class Stage:
    """One namespace with its content, or everything outside of namespaces. everyone: the active users.

    held: the holders by entity, also those of the instance; entities without grants are absent. inside: the
    users with a grant on or inside each container, or to whom a pattern reveals it; at first only the latter. instance: the
    primary key of the instance; None if it is not registered.
    """

    namespace: str
    everyone: int
    nodes: dict[int, Node]
    held: dict[int, list[int]]
    inside: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    live: list[Node] = field(init=False)
    by_address: dict[Address, Node] = field(init=False)
    instance: int | None = None

    def __post_init__(self) -> None:
        self.live = sorted((node for node in self.nodes.values() if node.state == State.LIVE), key=order_of)
        self.by_address = {node.address: node for node in self.nodes.values()}
        for pk, masks in self.held.items():
            for container in self.containers(self.nodes[pk]):
                self.inside[container] |= reduce(or_, masks)

    def containers(self, node: Node) -> set[int]:
        """Return the namespace and application that contain an entity, or that it is."""
        return {pk for pk in (node.namespace, node.application) if pk is not None}

    def pk_of(self, address: Address) -> int | None:
        """Return the primary key of an entity of the stage, or of the instance; otherwise None."""
        if address == instance_address():
            return self.instance
        node = self.by_address.get(address)
        return node.pk if node else None

    def holders(self, pk: int | None) -> tuple[int, ...] | list[int]:
        return self.held.get(pk, NO_USERS) if pk is not None else NO_USERS

    def live_inside(self, container: Node, kind: str | None) -> Iterator[Node]:
        """Yield the live entities inside a container, without the container."""
        for node in self.live:
            if (
                node.pk != container.pk
                and kind in (None, node.kind)
                and container.pk in (node.namespace, node.application)
            ):
                yield node


def stages(users: AffectedUsers, only: Collection[str] | None = None) -> Iterator[Stage]:
    """Yield everything outside of namespaces, then each namespace by name. Runs three queries for each.

    users: all users. only: the names of the namespaces, with the empty name for what is outside of them; None
    for all.
    """
    outside = _load_stage(users, None, "")
    outside.instance = next((node.pk for node in outside.nodes.values() if node.kind == "instance"), None)
    if only is None or "" in only:
        yield outside
    rows = Entity.objects.filter(kind="namespace", **({} if only is None else {"key__in": list(only)}))
    for pk, name in rows.order_by("key").values_list("pk", "key"):
        stage = _load_stage(users, pk, name)
        stage.instance = outside.instance
        stage.held |= {pk: held for pk, held in outside.held.items() if pk == outside.instance}
        yield stage


def _load_stage(users: AffectedUsers, namespace: int | None, name: str) -> Stage:
    where = {"namespace__isnull": True} if namespace is None else {"namespace_id": namespace}
    rows = Entity.objects.filter(**where).order_by().values_list(*NODE_COLUMNS)
    nodes = {row[0]: Node(*row) for row in rows.iterator(chunk_size=ROWS_PER_READ)}
    numbers = {pk: NUMBERS[privilege] for privilege, pk in permission_ids().items()}
    held: dict[int, list[int]] = {}
    inside: dict[int, int] = defaultdict(int)
    for principal_type, row in PRINCIPAL_TYPES.items():
        grants = (
            row.held_grants.filter(**where, **in_force())
            .order_by()
            .values_list(
                "content_object_id", "permission_id", row.id_column, "namespace_id", "application_id"
            )
        )
        for pk, permission, principal, *containers in grants.iterator(chunk_size=ROWS_PER_READ):
            if bits := users.before.bits.get((principal_type, principal), 0) & users.before.known:
                if pk not in nodes:
                    # it is on a pattern, and the containers are those that the pattern reveals
                    for container in filter(None, containers):
                        inside[container] |= bits
                    continue
                masks = held.get(pk)
                if masks is None:
                    masks = held[pk] = [0] * len(ANY)
                masks[numbers[permission]] |= bits
    return Stage(name, users.before.known, nodes, held, inside)


class ExtraGrants:
    """Grants that are not stored: the users that get each one. inside: the users with such a grant on or
    inside a container.
    """

    def __init__(self, stage: Stage, masks: Mapping[GrantKey, int]):
        self.masks = masks
        self.inside: dict[int, int] = defaultdict(int)
        self.all_live: dict[tuple[int, Privilege, str | None], int] = {}
        for (pk, _), mask in masks.items():
            if pk in stage.nodes:
                for container in stage.containers(stage.nodes[pk]):
                    self.inside[container] |= mask

    @classmethod
    def of(cls, stage: Stage, by_namespace: GrantMasks) -> "ExtraGrants":
        """Return those that count in a stage: the grants in it, and those on the instance."""
        return cls(
            stage,
            {
                (pk, NUMBERS[privilege]): mask
                for namespace in {stage.namespace, ""}
                for (address, privilege), mask in by_namespace[namespace].items()
                if (pk := stage.pk_of(address)) is not None
            },
        )


def masks_by_namespace(grants: Iterable[tuple[str, Address, Privilege]], users: AffectedUsers) -> GrantMasks:
    """Return the masks of the users with each grant, by the name of the namespace; empty for grants outside
    of namespaces.
    """
    masks: GrantMasks = defaultdict(lambda: defaultdict(int))
    bits = {name: 1 << bit for bit, name in enumerate(users.names)}
    for user, address, privilege in grants:
        # a user who is inactive now gets nothing
        mask = bits.get(user, 0) & users.before.known
        masks[address.namespace.key if address.namespace else ""][address, privilege] |= mask
    return masks


class StageSource(UserMasks):
    """The masks around one entity of a stage, with extra grants."""

    __slots__ = ("_extra", "_node", "_stage", "everyone")

    def __init__(self, stage: Stage, node: Node, extra: ExtraGrants):
        self._stage, self._node, self._extra, self.everyone = stage, node, extra, stage.everyone

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> int:
        pk = self._node.pk_at(scope, self._stage.instance)
        if pk is None:
            return 0
        held, extra, mask = self._stage.holders(pk), self._extra.masks, 0
        for privilege in privileges:
            number = NUMBERS[privilege]
            mask |= held[number]
            if extra:
                mask |= extra.get((pk, number), 0)
        return mask

    def has_at_or_below(self) -> int:
        if self._node.kind in CONTAINER_KINDS:
            return self._stage.inside.get(self._node.pk, 0) | self._extra.inside.get(self._node.pk, 0)
        return self.has(ANY, Scope.SELF)

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> int:
        key = self._node.pk, privilege, kind
        if key not in self._extra.all_live:
            number, mask = NUMBERS[privilege], self.everyone
            for node in self._stage.live_inside(self._node, kind):
                mask &= self._stage.holders(node.pk)[number] | self._extra.masks.get((node.pk, number), 0)
                if not mask:
                    break
            self._extra.all_live[key] = mask
        return self._extra.all_live[key]


class Decision(NamedTuple):
    """The users with one permission.

    permitted: in the generation before. now, then: in the generation after, without and with extra grants.
    """

    node: Node
    pair: RulePair
    permitted: int
    now: int
    then: int

    @property
    def lost(self) -> int:
        """The users who lose the permission without extra grants."""
        return self.permitted & ~self.now

    @property
    def side_effect(self) -> int:
        """The users that have the permission only through the extra grants."""
        return self.then & ~self.permitted & ~self.now


def decisions(
    stage: Stage,
    pairs: Mapping[str, list[RulePair]],
    extra: ExtraGrants | None = None,
    nodes: Iterable[Node] | None = None,
) -> Iterator[Decision]:
    """Yield the decisions about live entities of a stage, by entity and rule. nodes: all of them by default."""
    stored = ExtraGrants(stage, {})
    for node in stage.live if nodes is None else nodes:
        base, source = StageSource(stage, node, stored), StageSource(stage, node, extra or stored)
        for pair in pairs[node.kind]:
            now = users_meeting(pair.after, base)
            then = users_meeting(pair.after, source) if extra and extra.masks else now
            yield Decision(node, pair, users_meeting(pair.before, base), now, then)


@dataclass
class StageFacts:
    """The facts about one user in a stage; see `grants.policies.decide.Facts`. mask: the bit of the user."""

    stage: Stage
    mask: int
    is_subject_known: bool = True
    _missing: dict[tuple[Address, Privilege, str | None], EntitiesWithoutPrivilege] = field(
        default_factory=dict
    )

    def privileges_on(self, address: Address) -> Mapping[Privilege, str]:
        held = self.stage.holders(self.stage.pk_of(address))
        return {privilege: "" for privilege, number in NUMBERS.items() if held[number] & self.mask}

    def has_grant_at_or_below(self, address: Address) -> bool:
        if address.kind not in CONTAINER_KINDS:
            return bool(self.privileges_on(address))
        node = self.stage.by_address.get(address)
        return node is not None and bool(self.stage.inside.get(node.pk, 0) & self.mask)

    def grant_at_or_below(self, address: Address) -> HeldGrant | None:
        """Return None, because a stage does not contain single grants."""
        return None

    def entities_without_privilege(
        self, address: Address, privilege: Privilege, kind: str | None
    ) -> EntitiesWithoutPrivilege:
        key = address, privilege, kind
        if key not in self._missing:
            inside = list(self.stage.live_inside(self.stage.by_address[address], kind))
            number = NUMBERS[privilege]
            missing = tuple(
                node.address for node in inside if not self.stage.holders(node.pk)[number] & self.mask
            )
            self._missing[key] = EntitiesWithoutPrivilege(not missing, len(inside), missing)
        return self._missing[key]
