"""Write periods: end the open period of a key and begin new ones, for the events of many keys with few
statements.

The caller holds the lock of the history (grants.history.catch_up).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import models

from grants.bulk_rows import database_time, insert_rows, update_rows
from grants.history.events import Event
from grants.history.keyed_rows import rows_of_keys

Key = tuple[int, ...]


def _replace(key: Key, before: tuple | None, value: tuple | None) -> tuple | None:
    return value


@dataclass(frozen=True)
class PeriodTable:
    """How events become rows of a period table.

    key_columns: the integers that identify what the period is about. value_columns: what an event sets; empty
    for a fact that only holds or does not. extra_columns: the other columns, which `extra_values` returns for
    a key and the event that began the period. next_value: returns the value after an event, from the key, the
    value before and the value of the event; by default the latter. A value is a tuple in the order of
    `value_columns`.
    """

    model: type[models.Model]
    key_columns: tuple[str, ...]
    value_columns: tuple[str, ...] = ()
    extra_columns: tuple[str, ...] = ()
    extra_values: Callable[[Key, Event], tuple] = lambda key, event: ()
    next_value: Callable[[Key, tuple | None, Any], tuple | None] = _replace

    def write(self, events: Mapping[Key, Sequence[Event]]) -> None:
        """Write the events of each key, which are in the order of their lines.

        An event that changes nothing is skipped.
        """
        ended: list[tuple[int, int]] = []
        begun: list[tuple] = []
        open_periods = self._open_periods(events)
        for key, key_events in events.items():
            pk, value = open_periods.get(key, (None, None))
            first: Event | None = None
            for event in key_events:
                new_value = self.next_value(key, value, event.value)
                if new_value == value:
                    continue
                if first is not None:
                    begun.append(self._row(key, value, first, event.revision))
                elif value is not None:
                    ended.append((event.revision, pk))
                first, value = (event if new_value is not None else None), new_value
            if first is not None:
                begun.append(self._row(key, value, first, None))
        update_rows(self.model, ("until_revision",), ended)
        insert_rows(self.model, self._columns, begun)

    @property
    def _columns(self) -> tuple[str, ...]:
        return (
            *self.key_columns,
            *self.value_columns,
            *self.extra_columns,
            "from_revision",
            "until_revision",
            "since",
        )

    def _row(self, key: Key, value: tuple, begin: Event, until: int | None) -> tuple:
        return (*key, *value, *self.extra_values(key, begin), begin.revision, until, database_time(begin.at))

    def _open_periods(self, keys: Iterable[Key]) -> dict[Key, tuple[int, tuple]]:
        """Return primary key and value of the open period of each key that has one."""
        periods: dict[Key, tuple[int, tuple]] = {}
        if not self.key_columns:
            for pk, *values in self.model._default_manager.filter(until_revision=None).values_list(
                "pk", *self.value_columns
            ):
                periods[()] = pk, tuple(values)
            return periods
        rows = rows_of_keys(
            self.model, self.key_columns, list(keys), ("id", *self.value_columns), "p.until_revision IS NULL"
        )
        width = len(self.key_columns)
        for values in rows:
            periods[tuple(values[:width])] = values[width], tuple(self._python_values(values[width + 1 :]))
        return periods

    def _python_values(self, values: Sequence) -> Iterable:
        """Convert the values of a raw statement to those of events: SQLite has no booleans and no time zones."""
        for name, value in zip(self.value_columns, values, strict=True):
            if isinstance(self.model._meta.get_field(name), models.BooleanField):
                yield bool(value)
            elif isinstance(value, datetime):
                yield database_time(value if value.tzinfo else value.replace(tzinfo=UTC))
            else:
                yield value
