"""The areas of a result that may have changed since an older one, by the lines of the journal."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from analytics.spark.area_input import Area
from entities.address import address_or_none
from grants.journal import ACTIONS, DECISION_ACTIONS, GRANT_ACTIONS, SEAL, STATE_ACTIONS
from grants.models import PRINCIPAL_TYPES, JournalLine, User
from grants.principal_names import parse_principal, principals_by_name
from grants.querysets import belongings
from grants.validity import period_change_condition

MOST_LINES = 1_000
MOST_USERS = 500
MOST_NAMESPACES = 8
_USERS = {
    "user-add",
    "user-activate",
    "user-deactivate",
    "principal-add",
    "member-add",
    "member-remove",
    "user-remove",
}


def changed_areas(since: int, base_at: datetime, revision: int, at: datetime) -> tuple[Area, ...] | None:
    """Return the areas in which a row may differ between two snapshots; None if everything must be computed.

    since, base_at: the revision and the time of the older one. revision, at: of the new one.
    Everything must be computed after too many changes, and after one that is not about single users or namespaces, such as a
    renamed user.
    """
    if at < base_at:
        return None
    scope = _Scope()
    lines = JournalLine.objects.filter(revision__gt=since, revision__lte=revision).order_by("revision")
    rows = list(lines.values_list("action", "principal", "entity")[: MOST_LINES + 1])
    if len(rows) > MOST_LINES or not all(scope.add(*row) for row in rows):
        return None
    changes = list(islice(_period_changes(base_at, at), MOST_LINES + 1))
    if len(changes) > MOST_LINES or not all(scope.add(*row) for row in changes):
        return None
    return scope.areas()


class _Scope:
    """What lines name: users, namespaces, and for grants both. The namespace outside of all namespaces is empty."""

    def __init__(self) -> None:
        self.users: set[str] = set()
        self.namespaces: set[str] = set()
        self.granted: tuple[set[str], set[str]] = (set(), set())

    def add(self, action: str, principal: str, entity: str) -> bool:
        """Add a line. Return False if it does not say which users or namespaces it is about."""
        if action in STATE_ACTIONS:
            return self._add_namespace(self.namespaces, entity)
        if action in GRANT_ACTIONS and entity:
            users = _holders_of(principal)
            if users is None:
                return False
            if entity.startswith("instance:"):
                self.users |= users
                return True
            self.granted[0].update(users)
            return self._add_namespace(self.granted[1], entity)
        if action in _USERS or action in GRANT_ACTIONS:
            if not principal.startswith("user:"):
                return False
            self.users.add(parse_principal(principal)[1])
            return True
        return action in ACTIONS and action not in DECISION_ACTIONS and action != SEAL

    def _add_namespace(self, namespaces: set[str], entity: str) -> bool:
        address = address_or_none(entity)
        if address is not None:
            namespaces.add(address.namespace.key if address.namespace else "")
        return address is not None

    def areas(self) -> tuple[Area, ...] | None:
        """Return the areas; None if they are so large that computing everything takes about as long."""
        users, namespaces = self.granted
        if len(self.users) > MOST_USERS or len(self.namespaces | namespaces) > MOST_NAMESPACES:
            return None
        areas = []
        if self.users:
            areas.append(Area(frozenset(self.users), None))
        if self.namespaces:
            areas.append(Area(None, frozenset(self.namespaces)))
        if users and namespaces:
            areas.append(Area(frozenset(users) if len(users) <= MOST_USERS else None, frozenset(namespaces)))
        return tuple(areas)


def _holders_of(principal: str) -> set[str] | None:
    """Return the active and inactive users who hold the grants of a principal now; None if it does not exist any more.

    Users who left a group have lines of their own.
    """
    found = principals_by_name([principal]).get(principal)
    if found is None:
        return None
    if isinstance(found, User):
        return {found.username}
    return set(belongings().filter(group=found).values_list("user__username", flat=True))


def _period_changes(base_at: datetime, at: datetime) -> Iterator[tuple[str, str, str]]:
    """Yield an action, a principal and an entity, as lines have them, for each grant and membership whose period began or
    ended between these times.
    """
    has_changed = period_change_condition(base_at, at)
    for row in PRINCIPAL_TYPES.values():
        for principal, address, *_ in row.held_grants.filter(has_changed).order_by().grant_keys():
            yield "grant", principal, str(address)
    for name in belongings().filter(has_changed).values_list("user__username", flat=True):
        yield "member-add", f"user:{name}", ""
