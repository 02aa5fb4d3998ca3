"""List the people who can access one entity, or each entity of a set: a container with its contents, or one
kind of them.
"""

from collections.abc import Iterator

from entities.address import Address
from entities.frozen import frozen
from entities.models import State
from entities.selectors import entity_at, subtree_of
from grants.access.what_can import kinds_in_byte_order
from grants.access.who_can import PeopleFilter, PeopleWithAccess, UserAccess
from grants.policies.policy import Generation

# A page of a set ends after this many entities, so that its cost is limited even if no user can access them.
MAX_ENTITIES_PER_PAGE = 100
KEYS_PER_QUERY = 100

# (kind, key, name of the user): the last user of a page. Without a name: the list continues after this
# entity.
Position = tuple[str, str, str | None]


@frozen
class Target:
    """What is accessed: an entity, or with `has_contents` also every live entity inside it.

    kind: only entities of this kind; empty for all kinds.
    """

    address: Address
    has_contents: bool = False
    kind: str = ""

    def addresses(self, after: Position | None) -> Iterator[Address]:
        """Yield the addresses from a position on, sorted by code points, `KEYS_PER_QUERY` with each query."""
        if not self.has_contents:
            yield self.address
            return
        container = entity_at(self.address)
        if container is None:
            return
        rows = subtree_of(container).filter(state=State.LIVE)
        kinds = [kind for kind in kinds_in_byte_order() if self.kind in ("", kind)]
        for kind in kinds[kinds.index(after[0]) if after is not None and after[0] in kinds else 0 :]:
            last, is_included = (
                ("", False) if after is None or kind != after[0] else (after[1], after[2] is not None)
            )
            keys = rows.filter(kind=kind).order_by("key").values_list("key", flat=True)
            while chunk := list(
                keys.filter(**{"key__gte" if is_included else "key__gt": last})[:KEYS_PER_QUERY]
            ):
                yield from (Address(kind, key) for key in chunk)
                last, is_included = chunk[-1], False

    def count(self) -> int:
        """Return the number of live entities. Runs two queries."""
        container = entity_at(self.address)
        if not self.has_contents or container is None:
            return 1
        rows = subtree_of(container).order_by().filter(state=State.LIVE)
        return (rows.filter(kind=self.kind) if self.kind else rows).count()


@frozen
class AccessPage:
    """One page: (entity, access of a user). next_position: None on the last page."""

    rows: list[tuple[Address, UserAccess]]
    next_position: Position | None


@frozen
class AccessList:
    """The people who can access the entities of a target, sorted by entity and then by name."""

    target: Target
    generation: Generation
    where: PeopleFilter = PeopleFilter()
    is_descending: bool = False

    def people(self, address: Address) -> PeopleWithAccess:
        return PeopleWithAccess(address, self.generation, self.where, self.is_descending)

    def page(
        self, after: Position | None, max_rows: int, known: PeopleWithAccess | None = None
    ) -> AccessPage:
        """Return the rows after a position, or the first ones. Runs the queries of `PeopleWithAccess.page`
        for each entity.

        known: the people who can access one of the entities, which the caller also uses.
        """
        rows: list[tuple[Address, UserAccess]] = []
        addresses = self.target.addresses(after)
        address = next(addresses, None)
        checked = 0
        while address is not None:
            checked += 1
            start = after[2] if after is not None and after[:2] == (address.kind, address.key) else None
            people = known if known is not None and known.address == address else self.people(address)
            page = people.page(start, max_rows - len(rows))
            rows += [(address, access) for access in page.rows]
            if page.next_after is not None:
                return AccessPage(rows, (address.kind, address.key, page.next_after))
            following = next(addresses, None)
            if following is not None and (len(rows) == max_rows or checked == MAX_ENTITIES_PER_PAGE):
                return AccessPage(rows, (address.kind, address.key, None))
            address = following
        return AccessPage(rows, None)

    def all_rows(self, max_rows: int) -> Iterator[tuple[Address, UserAccess]]:
        """Yield all rows, read in pages of `max_rows`, so that memory does not grow with their number."""
        position: Position | None = None
        while True:
            page = self.page(position, max_rows)
            yield from page.rows
            if page.next_position is None:
                return
            position = page.next_position
