"""Load entities as small tuples, and enforce the size limits of an evaluation."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from django.conf import settings

from entities.address import Address, instance_address
from entities.models import Entity, State
from entities.selectors import entities_at
from entities.vocabulary import INNER_CONTAINER_KINDS, KINDS
from grants.errors import EffectTooLarge
from grants.policies.grammar import Scope

NODE_COLUMNS = ("pk", "kind", "key", "state", "parent_id", "namespace_id", "application_id")
ROWS_PER_STATEMENT = 10_000


class Node(NamedTuple):
    """An entity. pk: negative for an address that is not registered; state: None for such an address."""

    pk: int
    kind: str
    key: str
    state: str | None
    parent: int | None
    namespace: int | None
    application: int | None

    @property
    def address(self) -> Address:
        return Address(self.kind, self.key)

    def pk_at(self, scope: Scope, instance: int | None) -> int | None:
        """Return the primary key of the entity at a scope; None if there is none, or only a parameter names it.

        instance: that of the instance.
        """
        pks = {
            Scope.SELF: self.pk,
            Scope.PARENT: self.parent,
            Scope.NAMESPACE: self.namespace,
            Scope.APPLICATION: self.application,
            Scope.INSTANCE: instance,
        }
        return pks.get(scope)

    def container(self, kind: str) -> int | None:
        """Return the primary key of the namespace or application that contains the entity."""
        return self.namespace if kind == "namespace" else self.application


@dataclass(slots=True)
class SizeLimit:
    """Count entities and grants, and raise EffectTooLarge above the limits of the settings.

    users: the number of affected users. The masks of an entity have a bit for each, so time and memory grow
    with the pairs.
    """

    users: int = 1
    entities: int = 0
    grants: int = 0

    def add_entities(self, count: int) -> None:
        self.entities += count
        if self.entities > settings.EFFECT_MAX_ENTITIES:
            raise EffectTooLarge("entities", settings.EFFECT_MAX_ENTITIES)
        if self.entities * self.users > settings.EFFECT_MAX_PAIRS:
            raise EffectTooLarge("pairs", settings.EFFECT_MAX_PAIRS)

    def add_grants(self, count: int) -> None:
        self.grants += count
        if self.grants > settings.EFFECT_MAX_GRANTS:
            raise EffectTooLarge("grants", settings.EFFECT_MAX_GRANTS)


class UnlimitedSize(SizeLimit):
    """No limit, for jobs, which read an evaluation in parts."""

    def add_entities(self, count: int) -> None:
        pass

    def add_grants(self, count: int) -> None:
        pass


@dataclass(slots=True)
class NodeTable:
    """The entities of an evaluation, by primary key and by address."""

    limit: SizeLimit
    by_pk: dict[int, Node] = field(default_factory=dict)
    by_address: dict[Address, Node] = field(default_factory=dict)
    instance: int | None = None

    def load_addresses(self, addresses: Iterable[Address]) -> None:
        """Load these addresses and their containers.

        An address that is not registered gets a negative primary key.
        """
        wanted = {near for address in addresses for near in (*address.ancestors, address)} | {
            instance_address()
        }
        rows = entities_at(wanted, Entity.rows.only(*NODE_COLUMNS))
        for row in rows.values():
            self._add(
                Node(
                    row.pk, row.kind, row.key, row.state, row.parent_id, row.namespace_id, row.application_id
                )
            )
        for address in sorted(wanted - rows.keys(), key=lambda address: len(address.ancestors)):
            pk = -len(self.by_pk) - 1
            namespace, application = (self._container_pk(address, kind, pk) for kind in INNER_CONTAINER_KINDS)
            parent = address.parent
            self._add(
                Node(
                    pk,
                    address.kind,
                    address.key,
                    None,
                    self.by_address[parent].pk if parent else None,
                    namespace,
                    application,
                )
            )
        self.instance = self.by_address[instance_address()].pk

    def load_rows(self, **where) -> list[Node]:
        """Load and return the entities that meet a condition. Runs one query."""
        rows = Entity.objects.filter(**where).order_by().values_list(*NODE_COLUMNS)
        nodes = []
        for row in rows.iterator(chunk_size=ROWS_PER_STATEMENT):
            node = Node(*row)
            if node.pk not in self.by_pk:
                self.limit.add_entities(1)
                self._add(node)
            nodes.append(node)
        return nodes

    def load_pks(self, pks: Iterable[int]) -> None:
        """Load the entities with these primary keys that are not loaded yet."""
        for chunk in batches([pk for pk in set(pks) if pk not in self.by_pk]):
            self.load_rows(pk__among=chunk)

    def keep_only(self, pks: Collection[int]) -> None:
        """Forget all other entities, to free memory."""
        self.by_pk = {pk: node for pk, node in self.by_pk.items() if pk in pks}
        self.by_address = {node.address: node for node in self.by_pk.values()}

    def _container_pk(self, address: Address, kind: str, pk: int) -> int | None:
        container = address.ancestor(kind)
        return None if container is None else pk if container == address else self.by_address[container].pk

    def _add(self, node: Node) -> None:
        self.by_pk[node.pk] = node
        self.by_address[node.address] = node


def is_live(node: Node, states: Mapping[Address, State]) -> bool:
    """Return whether an entity is live. states: the states that differ from the stored ones."""
    return (states.get(node.address, node.state) if states else node.state) == State.LIVE


def batches(items: list, size: int = ROWS_PER_STATEMENT) -> Iterator[list]:
    """Yield lists of at most `size` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def order_of(node: Node) -> tuple[int, str]:
    """Return the sort key of an entity: by kind, in the order of KINDS, then by key."""
    return list(KINDS).index(node.kind), node.key
