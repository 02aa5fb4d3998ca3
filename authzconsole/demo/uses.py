"""Invent the uses of the demo tenant: who used which entity on which day.

Most people use a part of what they hold, and the more they hold, the smaller the part is. The choices depend only on the
names, so each console has the same uses.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import date, timedelta
from typing import NamedTuple
from zlib import crc32

from entities.models import Entity
from grants.models import User
from grants.usage import UsageRecord

# The records begin this many days before today, so that they cover the window of the analysis in each of the ninety nights.
USED_DAYS = 180
# about this many entities are used by a person, if that is not more than the largest share of what the person holds
USED_ENTITIES = 28
LARGEST_SHARE = 0.75
# how many working days pass between two uses of an entity by the same person
WORKING_DAYS_BETWEEN = (1, 5, 5, 5, 10, 10, 20, 20)
# one of so many used entities is no longer used
STOPPED = 9
# who changed teams and kept the access: the namespaces that the person no longer uses, and for how many days
LEFT = {"grace.kim": (("marketing", "sales"), 130)}


class Use(NamedTuple):
    """The regular use of an entity by a user, until a day. dice: a number by which uses differ."""

    user: User
    entity: Entity
    until: date
    dice: int

    def on(self, day: date) -> UsageRecord | None:
        """Return the record of the day; None without a use."""
        week, weekday = divmod(day.toordinal() - 1, 7)
        between = WORKING_DAYS_BETWEEN[self.dice % len(WORKING_DAYS_BETWEEN)]
        if day > self.until or weekday >= 5 or (week * 5 + weekday + self.dice // 64) % between:
            return None
        return UsageRecord(self.user.username, self.entity.kind, self.entity.key, day, 1 + self.dice % 7)


def regular_uses(held: Mapping[User, Collection[Entity]], today: date) -> Iterator[Use]:
    """Yield what users use of what they hold. held: the live entities by user."""
    for user, entities in held.items():
        left, days_ago = LEFT.get(user.username, ((), 0))
        current = sum(_namespace(entity) not in left for entity in entities)
        share = min(LARGEST_SHARE, USED_ENTITIES / max(current, 1))
        for entity in entities:
            dice = crc32(f"{user.username} {entity.kind}:{entity.key}".encode())
            if dice % 1_000 >= share * 1_000:
                continue
            until = today
            if _namespace(entity) in left:
                until -= timedelta(days=days_ago)
            elif dice // 1_000 % STOPPED == 0:
                until -= timedelta(days=20 + dice // 9_000 % (USED_DAYS - 20))
            yield Use(user, entity, until, dice // 1_000)


def _namespace(entity: Entity) -> str:
    return entity.key.split(".")[0]
