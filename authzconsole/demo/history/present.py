"""The present state of the demo tenant, and the day on which each part of it began."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from zlib import crc32

from authzconsole.demo.history.story import (
    CUSTOMER_DATA_DAY,
    DELETED_ENTITIES,
    FIRST_DAY,
    GRANT_DAYS,
    JOINERS,
    NEW_ENTITIES,
    NEW_GROUPS,
)
from authzconsole.demo.privileges import CUSTOMERS

FIRST_GRANTS_PERCENT, LAST_GRANT_DAY = 60, 15
CUSTOMER_KEYS = frozenset(CUSTOMERS.split())


@dataclass(frozen=True, slots=True, order=True)
class PresentGrant:
    principal: str
    entity: str
    privilege: str
    reason: str


@dataclass
class Present:
    """The lines of the tenant document, by their type."""

    lines: list[dict]
    _deletion_days: dict[str, int] = field(
        default_factory=lambda: {address: day for address, day, _ in DELETED_ENTITIES}
    )

    def _lines(self, type_: str) -> list[dict]:
        return [line for line in self.lines if line["type"] == type_]

    @cached_property
    def entities(self) -> dict[str, dict]:
        return {line["id"]: line for line in self._lines("entity")}

    @cached_property
    def users(self) -> dict[str, dict]:
        return {line["name"]: line for line in self._lines("user")}

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        return {line["name"]: line["members"] for line in self._lines("group")}

    @cached_property
    def grants(self) -> list[PresentGrant]:
        return [
            PresentGrant(line["principal"], line["entity"], privilege, line.get("reason", ""))
            for line in self._lines("grant")
            for privilege in line["privileges"]
        ]

    def registration_day(self, address: str) -> int:
        key = address.partition(":")[2]
        return next((day for prefix, day in NEW_ENTITIES if key.startswith(prefix)), FIRST_DAY)

    def late_entities(self) -> Iterator[tuple[int, str]]:
        """Yield (day, address) of entities that were registered after the journal began, containers first."""
        for address in sorted(
            self.entities, key=lambda address: (not address.startswith("application:"), address)
        ):
            if (day := self.registration_day(address)) < FIRST_DAY:
                yield day, address

    def is_live_at_first(self, address: str) -> bool:
        return self.entities[address]["state"] == "live" or address in self._deletion_days

    def grant_day(self, grant: PresentGrant) -> int:
        """Return the day of a present grant: not before its entity, user or group began, and not after the
        entity was deleted.
        """
        entity_day, principal_day = self.registration_day(grant.entity), _principal_day(grant.principal)
        day = min(self._unbounded_day(grant), entity_day, principal_day)
        if self.entities[grant.entity]["state"] == "deleted" and day <= self._deletion_days.get(
            grant.entity, 0
        ):
            return min(entity_day, principal_day)
        return day

    def _unbounded_day(self, grant: PresentGrant) -> int:
        for principal, start, day in GRANT_DAYS:
            if principal in ("", grant.principal) and grant.entity.startswith(start):
                return day
        if grant.principal == "group:platform-operations" and grant.entity.partition(":")[2] in CUSTOMER_KEYS:
            return CUSTOMER_DATA_DAY
        if self.entities[grant.entity]["state"] == "deleted":
            return FIRST_DAY
        # grants with the same reason were made together
        namespace = grant.entity.partition(":")[2].partition(".")[0]
        number = crc32(f"{grant.principal} {namespace} {grant.reason}".encode())
        if number % 100 < FIRST_GRANTS_PERCENT:
            return FIRST_DAY
        return LAST_GRANT_DAY + number // 100 % (FIRST_DAY - 2 * LAST_GRANT_DAY)


def _principal_day(principal: str) -> int:
    kind, _, name = principal.partition(":")
    day, _ = (JOINERS if kind == "user" else NEW_GROUPS).get(name, (FIRST_DAY, ""))
    return day
