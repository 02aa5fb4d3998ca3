"""Read a tenant namespace by namespace: its entities, and the holders of each privilege as masks of all
active users.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from entities.address import Address, instance_address
from entities.models import Entity, State
from entities.vocabulary import ANY, CONTAINER_KINDS, Privilege
from grants.effects.holders import NUMBERS
from grants.effects.masks import UserMasks
from grants.effects.nodes import NODE_COLUMNS, Node, order_of
from grants.models import PRINCIPAL_TYPES, User, permission_ids
from grants.policies.grammar import Scope
from grants.querysets import effective_memberships
from grants.validity import in_force

NO_USERS = (0,) * len(ANY)
ROWS_PER_READ = 10_000

# primary key of the entity, and number of the privilege
GrantKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Subjects:
    """All active users: user number i has bit i.

    bits: for each user and group, the mask of the users that its grants apply to.
    """

    names: tuple[str, ...]
    bits: dict[tuple[str, int], int]

    @property
    def everyone(self) -> int:
        return (1 << len(self.names)) - 1


def load_subjects() -> Subjects:
    """Load the active users and their groups. Runs two queries."""
    users = list(User.objects.active_principals().order_by("username").values_list("pk", "username"))
    users.sort(key=lambda user: user[1])
    bits: dict[tuple[str, int], int] = {("user", pk): 1 << number for number, (pk, _) in enumerate(users)}
    for user, group in (
        effective_memberships().values_list("user_id", "group_id").iterator(chunk_size=ROWS_PER_READ)
    ):
        bits["group", group] = bits.get(("group", group), 0) | bits["user", user]
    return Subjects(tuple(name for _, name in users), bits)


@dataclass
class Stage:
    """One namespace with its content, or everything outside of namespaces.

    held: the holders by entity; entities without grants are absent. inside: the users with a grant on or
    inside each container.
    instance: the primary key of the instance. instance_held: its holders.
    """

    namespace: str
    everyone: int
    nodes: dict[int, Node]
    held: dict[int, list[int]]
    instance: int
    instance_held: tuple[int, ...] | list[int]
    inside: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    live: list[Node] = field(init=False)
    by_address: dict[Address, Node] = field(init=False)

    def __post_init__(self) -> None:
        self.live = sorted((node for node in self.nodes.values() if node.state == State.LIVE), key=order_of)
        self.by_address = {node.address: node for node in self.nodes.values()}
        for pk, masks in self.held.items():
            anyone = masks[0] | masks[1] | masks[2] | masks[3] if len(masks) == 4 else _union(masks)
            for container in self.containers(self.nodes[pk]):
                self.inside[container] |= anyone

    def containers(self, node: Node) -> set[int]:
        """Return the namespace and application that contain an entity, or that it is."""
        return {pk for pk in (node.namespace, node.application) if pk is not None}

    def holders(self, pk: int | None) -> tuple[int, ...] | list[int]:
        if pk == self.instance:
            return self.instance_held
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


def _union(masks: list[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def stages(subjects: Subjects, only: Collection[str] | None = None) -> Iterator[Stage]:
    """Yield everything outside of namespaces, then each namespace by name. Runs three queries for each.

    only: the names of the namespaces, with the empty name for what is outside of them; None for all.
    """
    outside = _load_stage(subjects, None, "", 0, NO_USERS)
    instance = outside.by_address.get(instance_address())
    outside.instance = instance.pk if instance else 0
    outside.instance_held = outside.held.get(outside.instance, NO_USERS)
    if only is None or "" in only:
        yield outside
    rows = Entity.objects.filter(kind="namespace", **({} if only is None else {"key__in": list(only)}))
    for pk, name in rows.order_by("key").values_list("pk", "key"):
        yield _load_stage(subjects, pk, name, outside.instance, outside.instance_held)


def _load_stage(
    subjects: Subjects,
    namespace: int | None,
    name: str,
    instance: int,
    instance_held: tuple[int, ...] | list[int],
) -> Stage:
    where = {"namespace__isnull": True} if namespace is None else {"namespace_id": namespace}
    rows = (
        Entity.objects.filter(**where)
        .order_by()
        .values_list(*NODE_COLUMNS)
        .iterator(chunk_size=ROWS_PER_READ)
    )
    nodes = {row[0]: Node(*row) for row in rows}
    numbers = {pk: NUMBERS[privilege] for privilege, pk in permission_ids().items()}
    held: dict[int, list[int]] = {}
    for principal_type, row in PRINCIPAL_TYPES.items():
        grants = (
            row.grants.filter(**where, **in_force())
            .order_by()
            .values_list("content_object_id", "permission_id", row.id_column)
        )
        for pk, permission, principal in grants.iterator(chunk_size=ROWS_PER_READ):
            if bits := subjects.bits.get((principal_type, principal)):
                masks = held.get(pk)
                if masks is None:
                    masks = held[pk] = [0] * len(ANY)
                masks[numbers[permission]] |= bits
    return Stage(name, subjects.everyone, nodes, held, instance, instance_held)


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


class StageSource(UserMasks):
    """The masks around one entity of a stage, with extra grants."""

    __slots__ = ("_extra", "_node", "_stage", "everyone")

    def __init__(self, stage: Stage, node: Node, extra: ExtraGrants):
        self._stage, self._node, self._extra, self.everyone = stage, node, extra, stage.everyone

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> int:
        pk = pk_at(self._stage, self._node, scope)
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


def pk_at(stage: Stage, node: Node, scope: Scope) -> int | None:
    """Return the primary key of the entity at a scope; None if there is none, or only a parameter names it."""
    match scope:
        case Scope.SELF:
            return node.pk
        case Scope.PARENT:
            return node.parent
        case Scope.NAMESPACE:
            return node.namespace
        case Scope.APPLICATION:
            return node.application
        case Scope.INSTANCE:
            return stage.instance or None
        case _:
            return None
