"""The result of a change set, for pages, commands and APIs."""

from collections.abc import Iterable, Mapping, Sized
from dataclasses import field, replace

from entities.address import Address
from entities.frozen import frozen
from grants.change_set import (
    Addition,
    Change,
    Exclude,
    Grant,
    GuardrailChange,
    Include,
    Join,
    Key,
    Leave,
    Revoke,
)
from grants.validity import Validity

MAX_NAMED_ADDRESSES = 5


@frozen
class Outcome:
    """The result of a change set.

    sentence: what changed; for a set with one change, what it changed. revision: the newest revision of the
    journal, whether or not anything changed.
    changes: the changes that had an effect. before: the periods of the grants and memberships that they
    changed or ended, by key. unchanged: a sentence for each change without an effect.
    planned: addresses that were registered for a grant. principals: accounts of the console that became
    principals because they received a grant or a membership.
    notices: for each grant that has no effect yet, the reason: the state of its address or principal; and the
    guardrails that the changes violate without being refused.
    previous: the change that would set a guardrail or an exception as it was; None if it is new.
    """

    has_changed: bool
    sentence: str
    revision: int
    changes: tuple[Change, ...] = ()
    before: Mapping[Key, Validity] = field(default_factory=dict)
    unchanged: tuple[str, ...] = ()
    planned: tuple[Address, ...] = ()
    principals: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    previous: GuardrailChange | None = None

    def with_notices(self, notices: Iterable[str]) -> "Outcome":
        """Return the outcome with further notices."""
        return replace(self, notices=(*self.notices, *notices))

    @property
    def granted(self) -> list[Grant]:
        return [change for change in self.changes if isinstance(change, Grant) and self._is_new(change)]

    @property
    def revoked(self) -> list[Revoke]:
        return [change for change in self.changes if isinstance(change, Revoke)]

    @property
    def joined(self) -> list[Join | Include]:
        return [
            change for change in self.changes if isinstance(change, Join | Include) and self._is_new(change)
        ]

    @property
    def left(self) -> list[Leave | Exclude]:
        return [change for change in self.changes if isinstance(change, Leave | Exclude)]

    @property
    def changed_periods(self) -> list[Addition]:
        """Existing grants and memberships that got another period, with the new one."""
        return [
            change for change in self.changes if isinstance(change, Addition) and not self._is_new(change)
        ]

    def _is_new(self, change: Addition) -> bool:
        return change.key not in self.before

    @property
    def summary(self) -> str:
        """The numbers of changes."""
        return self._summary(
            "nothing changed",
            {"grant": "granted", "revoke": "revoked", "join": "added", "leave": "removed"},
            "changed the period of",
            "unchanged",
            ("is only planned", "are only planned"),
        )

    def with_summary(self) -> "Outcome":
        """Return the outcome with the summary as its sentence."""
        return replace(self, sentence=self.summary)

    @property
    def forecast_summary(self) -> str:
        """The numbers of changes that a dry run would make."""
        planned = "would be registered as planned"
        return self._summary(
            "nothing would change",
            {
                "grant": "would grant",
                "revoke": "would revoke",
                "join": "would add",
                "leave": "would remove",
            },
            "would change the period of",
            "would stay as it is",
            (planned, planned),
        )

    def _summary(
        self,
        nothing: str,
        verbs: Mapping[str, str],
        changed: str,
        unchanged: str,
        planned_words: tuple[str, str],
    ) -> str:
        if not self.has_changed:
            return nothing
        counts: list[tuple[str, Sized]] = [
            (verbs["grant"], self.granted),
            (verbs["join"], self.joined),
            (changed, self.changed_periods),
            (verbs["revoke"], self.revoked),
            (verbs["leave"], self.left),
        ]
        parts = [f"{verb} {len(changes):,}" for verb, changes in counts if changes]
        parts += [f"{len(self.unchanged):,} {unchanged}"] if self.unchanged else []
        return "; ".join(filter(None, [", ".join(parts), self._planned_addresses(*planned_words)]))

    def _planned_addresses(self, singular: str, plural: str) -> str:
        if not self.planned:
            return ""
        count = len(self.planned)
        names = ", ".join(map(str, self.planned[:MAX_NAMED_ADDRESSES]))
        if count > MAX_NAMED_ADDRESSES:
            names += f" and {count - MAX_NAMED_ADDRESSES:,} more"
        return f"1 address {singular}: {names}" if count == 1 else f"{count:,} addresses {plural}: {names}"


def joint_outcome(outcomes: Iterable[Outcome], revision: int) -> Outcome:
    """Return the outcome of a change set from those of its parts."""
    outcomes = list(outcomes)
    if len(outcomes) == 1:
        return outcomes[0]
    before: dict[Key, Validity] = {}
    for outcome in outcomes:
        before.update(outcome.before)
    return Outcome(
        any(outcome.has_changed for outcome in outcomes),
        "; ".join(outcome.sentence for outcome in outcomes if outcome.has_changed) or "nothing changed",
        revision,
        tuple(change for outcome in outcomes for change in outcome.changes),
        before,
        tuple(sentence for outcome in outcomes for sentence in outcome.unchanged),
        tuple(address for outcome in outcomes for address in outcome.planned),
        tuple(dict.fromkeys(name for outcome in outcomes for name in outcome.principals)),
        tuple(notice for outcome in outcomes for notice in outcome.notices),
    )
