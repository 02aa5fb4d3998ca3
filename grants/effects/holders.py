"""Load the grants of affected users, and return who holds what before and after the changes, as masks.

No operation has the instance as its target, so the containers of which the content matters are namespaces and
applications.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from django.db.models import Count, OuterRef, QuerySet, Subquery

from entities.models import Entity, State
from entities.patterns import reveals
from entities.vocabulary import ANY, Privilege
from grants.effects.nodes import Node, NodeTable, batches, is_live
from grants.effects.situations import AffectedUsers, Principal
from grants.models import PRINCIPAL_TYPES, grants_by_type, permission_ids
from grants.policies.grammar import HasOnAllLive
from grants.validity import in_force

# for each situation: the masks of the holders, in the order of the privileges
HeldMasks = tuple[tuple[int, ...], ...]
# the entities of a rule over all live entities are checked in chunks, of which each is longer than the one
# before
MIN_CHECKED_PER_STATEMENT, MAX_CHECKED_PER_STATEMENT = 100, 10_000
NUMBERS: dict[Privilege, int] = {privilege: number for number, privilege in enumerate(ANY)}


class AffectedHolders:
    """The holders among the affected users, in each situation."""

    def __init__(self, affected: AffectedUsers, nodes: NodeTable):
        self.situations, self._nodes = affected.situations, nodes
        # a condition with the keys of all principals would be slower than reading the grants of others too
        self._grants = (
            [(principal_type, principal_type.held_grants) for principal_type in PRINCIPAL_TYPES.values()]
            if affected.has_all
            else list(grants_by_type(affected.after.bits.keys()))
        )
        self._numbers = {pk: NUMBERS[privilege] for privilege, pk in permission_ids().items()}
        self.nothing: HeldMasks = tuple((0,) * len(ANY) for _ in self.situations)
        # (entity, number of the privilege, principal) of the changed grants, by situation
        self._added = [self._keys(situation.added) for situation in self.situations]
        self._removed = [self._keys(situation.removed) for situation in self.situations]
        self._added_on = [self._by_entity(keys) for keys in self._added]
        self._existing: Counter[tuple[int, int, Principal]] | None = None
        self._held: dict[int, HeldMasks] = {}
        self._retained: set[int] = set()
        # an entity with a changed state is live in some situations only
        self._changed = {
            node.pk: node
            for situation in self.situations
            for address in situation.states
            if (node := nodes.by_address.get(address))
        }
        self._changed_inside: dict[int, list[int]] = defaultdict(list)
        for pk, node in self._changed.items():
            for container in {node.namespace, node.application} - {None, pk}:
                self._changed_inside[container].append(pk)

    def has_changes_inside(self, container: Node) -> bool:
        """Return whether the state of an entity inside the container changes."""
        return container.pk in self._changed_inside

    def holders_on(self, pk: int | None) -> HeldMasks:
        """Return the holders on a loaded entity; no holders for None."""
        return self._held[pk] if pk is not None else self.nothing

    def load(self, pks: Iterable[int]) -> None:
        """Load the holders on these entities. Runs two queries for every `ROWS_PER_STATEMENT` entities."""
        for chunk in batches([pk for pk in set(pks) if pk not in self._held]):
            masks = self._load(chunk)
            for pk in chunk:
                self._held[pk] = tuple(map(tuple, masks[pk])) if pk in masks else self.nothing

    def forget(self, pks: Iterable[int]) -> None:
        """Forget the holders on these entities, to free memory."""
        for pk in pks:
            self._held.pop(pk, None)

    def forget_all(self) -> None:
        """Forget the holders on all entities, to free memory."""
        self._held.clear()
        self._retained.clear()

    def held_inside(self, containers: Sequence[Node]) -> dict[int, list[int]]:
        """Return, for each container and situation, the users with a grant on it or inside it.

        Runs two queries for each kind of containers.
        """
        by_kind: dict[str, list[int]] = defaultdict(list)
        for node in containers:
            by_kind[node.kind].append(node.pk)
        masks = {node.pk: [0] * len(self.situations) for node in containers}
        for kind, pks in by_kind.items():
            counts = self._counts_inside(kind, pks)
            for position, situation in enumerate(self.situations):
                differences = self._differences_inside(kind, position, pks)
                for (principal, pk), count in (
                    counts | {key: counts[key] + differences[key] for key in differences}
                ).items():
                    if count > 0 and pk in masks:
                        masks[pk][position] |= situation.bits.get(principal, 0)
        return masks

    def held_on_all_live(self, containers: Sequence[Node], leaf: HasOnAllLive) -> dict[int, list[int]]:
        """Return, for each container and situation, the users with the privilege on all live entities of the
        kind inside it.

        A user who holds it on all of them holds it on any two, so two entities of each container are checked
        first. Runs three queries, and a few more for each container in which a user passes this check.
        """
        masks, number = {}, NUMBERS[leaf.privilege]
        samples = self._live_samples(containers, leaf.kind)
        self.load({pk for pair in samples.values() for pk in pair})
        self._retained = set(self._held)
        for node in containers:
            masks[node.pk] = [-1] * len(self.situations)
            for pk in samples.get(node.pk, ()):
                masks[node.pk] = [
                    mask & held[number]
                    for mask, held in zip(masks[node.pk], self.holders_on(pk), strict=True)
                ]
            if any(masks[node.pk]):
                self._check_all(node, leaf, masks[node.pk], number)
        return masks

    def _check_all(self, container: Node, leaf: HasOnAllLive, masks: list[int], number: int) -> None:
        """Remove from the masks the users who lack the privilege on some live entity.

        Stop when no user is left.
        """
        changed = self._changed
        inside = [
            pk for pk in self._changed_inside.get(container.pk, ()) if leaf.kind in (None, changed[pk].kind)
        ]
        rows = (
            self._live_inside(container, leaf.kind)
            .exclude(pk__among=list(changed))
            .order_by()
            .values_list("pk", flat=True)
        )
        for chunk in chain([inside], _growing_chunks(rows.iterator(chunk_size=MAX_CHECKED_PER_STATEMENT))):
            self._nodes.limit.add_entities(len(chunk))
            self.load(chunk)
            for pk in chunk:
                for position, situation in enumerate(self.situations):
                    if masks[position] and (pk not in changed or is_live(changed[pk], situation.states)):
                        masks[position] &= self._held[pk][position][number]
            self.forget(pk for pk in chunk if pk not in self._retained)
            if not any(masks):
                return

    def _live_samples(self, containers: Sequence[Node], kind: str | None) -> dict[int, tuple[int, ...]]:
        """Return two entities inside each container that are live in every situation; none for a container
        without any.
        """
        changed = [
            self._nodes.by_address[address].pk
            for situation in self.situations
            for address in situation.states
        ]
        samples: dict[int, tuple[int, ...]] = {}
        for container_kind in {node.kind for node in containers}:
            pks = [node.pk for node in containers if node.kind == container_kind]
            rows = Entity.objects.filter(state=State.LIVE, **({"kind": kind} if kind else {}))
            rows = rows.exclude(kind=container_kind).exclude(pk__among=list(changed)).order_by()
            # lookups in the index of each container, because an aggregate would read all of its entities
            inside = rows.filter(**{f"{container_kind}_id": OuterRef("pk")}).values("pk")
            containers_of_kind = Entity.objects.filter(pk__among=pks).annotate(
                first=Subquery(inside.order_by("kind", "pk")[:1]),
                last=Subquery(inside.order_by("-kind", "-pk")[:1]),
            )
            samples |= {
                pk: (first, last)
                for pk, first, last in containers_of_kind.values_list("pk", "first", "last")
                if first is not None
            }
        return samples

    def _live_inside(self, container: Node, kind: str | None) -> QuerySet[Entity]:
        rows = Entity.objects.filter(state=State.LIVE, **({"kind": kind} if kind else {}))
        return rows.filter(**{f"{container.kind}_id": container.pk}).exclude(kind=container.kind)

    def _load(self, pks: list[int]) -> dict[int, list[list[int]]]:
        masks: dict[int, list[list[int]]] = {}
        bits = [situation.bits for situation in self.situations]
        for principal_type, grants in self._grants:
            rows = grants.filter(content_object__pk__among=pks, **in_force()).order_by()
            count = 0
            for pk, permission, principal_pk in rows.values_list(
                "content_object_id", "permission_id", principal_type.id_column
            ).iterator():
                count += 1
                number, principal = self._numbers[permission], (principal_type.name, principal_pk)
                held = masks.get(pk)
                if held is None:
                    held = masks[pk] = [[0] * len(ANY) for _ in bits]
                key = (pk, number, principal)
                for position, of_situation in enumerate(bits):
                    if key not in self._removed[position]:
                        held[position][number] |= of_situation.get(principal, 0)
            self._nodes.limit.add_grants(count)
        for position, added in enumerate(self._added_on):
            for pk in pks if len(pks) < len(added) else added.keys() & set(pks):
                for number, principal in added.get(pk, ()):
                    held = masks.setdefault(pk, [[0] * len(ANY) for _ in bits])
                    held[position][number] |= bits[position][principal]
        return masks

    def _counts_inside(self, kind: str, pks: list[int]) -> Counter:
        """Return the number of stored grants of each principal inside each container."""
        counts: Counter = Counter()
        for principal_type, grants in self._grants:
            name, column = principal_type.name, principal_type.id_column
            inside = grants.filter(**{f"{kind}__pk__among": pks}, **in_force()).order_by()
            for principal, pk, count in inside.values_list(column, f"{kind}_id").annotate(Count("pk")):
                counts[(name, principal), pk] = count
        return counts

    def _differences_inside(self, kind: str, position: int, pks: Iterable[int]) -> Counter:
        """Return by how much the number of grants of each principal inside each container changes in a
        situation.
        """
        differences: Counter = Counter()
        added, removed = self._added[position], self._removed[position]
        if not added and not removed:
            return differences
        existing = self._stored_changes()
        for keys, step in ((added - existing.keys(), 1), (removed & existing.keys(), -1)):
            for key in keys:
                pk, _, principal = key
                node = self._nodes.by_pk[pk]
                if node.address.is_pattern:
                    # one derived grant marks each container, unless it is not registered yet
                    for container in pks:
                        if (step > 0 or container > 0) and reveals(
                            node.address, self._nodes.by_pk[container].address
                        ):
                            differences[principal, container] += step
                elif (container := node.container(kind)) is not None:
                    # a grant and derived grants can give the same
                    differences[principal, container] += step if step > 0 else -existing[key]
        return differences

    def _stored_changes(self) -> Counter[tuple[int, int, Principal]]:
        """Return the changed grants that are stored and in force, with the number of their rows.

        Runs two queries for every `ROWS_PER_STATEMENT` entities, once.
        """
        if self._existing is None:
            changed = frozenset().union(*self._added, *self._removed)
            pks, principals = list({pk for pk, _, _ in changed}), {principal for _, _, principal in changed}
            self._existing = Counter()
            for principal_type, grants in grants_by_type(principals):
                for chunk in batches(pks):
                    rows = grants.filter(content_object__pk__among=chunk, **in_force()).order_by()
                    self._existing.update(
                        key
                        for pk, permission, principal in rows.values_list(
                            "content_object_id", "permission_id", principal_type.id_column
                        )
                        if (key := (pk, self._numbers[permission], (principal_type.name, principal)))
                        in changed
                    )
        return self._existing

    def _keys(self, grants: Iterable) -> frozenset[tuple[int, int, Principal]]:
        return frozenset(
            (self._nodes.by_address[address].pk, NUMBERS[privilege], principal)
            for principal, address, privilege in grants
            if address in self._nodes.by_address
        )

    @staticmethod
    def _by_entity(keys: Iterable[tuple[int, int, Principal]]) -> dict[int, list[tuple[int, Principal]]]:
        by_entity: dict[int, list] = defaultdict(list)
        for pk, number, principal in keys:
            by_entity[pk].append((number, principal))
        return by_entity


def _growing_chunks(pks: Iterator[int]) -> Iterator[list[int]]:
    size = MIN_CHECKED_PER_STATEMENT
    while chunk := list(islice(pks, size)):
        yield chunk
        size = min(size * 10, MAX_CHECKED_PER_STATEMENT)
