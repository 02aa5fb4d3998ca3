"""Grants of the subject of a denied question that would have met its requirement at another time."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from entities.address import Address
from entities.vocabulary import Privilege
from grants.policies.times import format_time, time_in_words

MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class InactiveGrant:
    """A grant that does not count at the time of the question, because it or its membership has not begun or
    has ended.

    principal: the holder, either the subject itself or one of its groups. valid_from, valid_until: when the
    grant and the membership both count; None means no limit. begins_later: False if it has ended.
    """

    principal: str
    entity: Address
    privilege: Privilege
    valid_from: datetime | None
    valid_until: datetime | None
    begins_later: bool

    @property
    def time(self) -> datetime:
        """When it begins or ended."""
        time = self.valid_from if self.begins_later else self.valid_until
        assert time is not None
        return time

    def words(self, subject: str) -> str:
        """Return the grant as text, such as `READ on dataset:sales.orders begins on 5 December 2026, 09:00
        UTC`.
        """
        through = "" if self.principal == subject else f" through {self.principal}"
        verb = "begins" if self.begins_later else "ended"
        return f"{self.privilege} on {self.entity}{through} {verb} on {time_in_words(self.time)}"

    def as_json(self) -> dict[str, str]:
        limits = {"valid_from": self.valid_from, "valid_until": self.valid_until}
        return {
            "principal": self.principal,
            "entity": str(self.entity),
            "privilege": str(self.privilege),
            **{name: format_time(time) for name, time in limits.items() if time is not None},
        }


def sentence_with_inactive(sentence: str, subject: str, grants: Iterable[InactiveGrant]) -> str:
    """Return the sentence of a denial with the first MAX_NAMED of these grants; unchanged without any."""
    words = [grant.words(subject) for grant in grants]
    more = [f"{len(words) - MAX_NAMED:,} more begin later or have ended"] if len(words) > MAX_NAMED else []
    return "; ".join([sentence.removesuffix("."), *words[:MAX_NAMED], *more]) + "." if words else sentence
