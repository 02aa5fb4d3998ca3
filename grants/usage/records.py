"""Import records of use from JSON Lines, all or none. A bad line is reported with its number, field and
reason.

A line has the members `user`, `entity`, `day` (or `at`, a time) and `count` (by default 1). The count of a
day is the larger one of the stored count and the imported one, so that a file can be imported again.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, timedelta

from django.db import transaction
from django.utils import timezone

from entities.address import AddressError, parse_address
from entities.vocabulary import quantity
from grants.authority.transactions import administrator_transaction
from grants.bulk_rows import chunks
from grants.errors import GrantError
from grants.journal import Author, JournalEntry, append_to_journal
from grants.policies.times import TimeError, parse_time
from grants.strict_json import MalformedJson, json_from_bytes
from grants.tenant import Faults
from grants.usage.storage import UsageRecord, store_usage

MEMBERS = ("user", "entity", "day", "at", "count")
MAX_COUNT = 10**12


class BadUsage(GrantError):
    """Records are invalid. faults: of the first hundred; `line` is the number of the record from 1. total:
    the number of all faults.
    """

    def __init__(self, faults: Faults):
        self.faults, self.total = faults.kept, faults.bad_lines
        lines = [f"line {number}: {field}: {reason}" for number, field, reason in self.faults]
        more = [f"and {self.total - len(lines):,} more"] if self.total > len(lines) else []
        super().__init__("\n".join([*lines, *more]))


class _BadField(Exception):
    def __init__(self, field: str, reason: str):
        self.field, self.reason = field, reason
        super().__init__(reason)


def import_usage(lines: Iterable[bytes], *, author: Author) -> int:
    """Store the records of a file, like `import_records`."""
    return import_records(_parsed_lines(lines), author=author)


def import_records(records: Iterable[tuple[int, object]], *, author: Author) -> int:
    """Store records in bounded memory, with a journal line. Return the number of stored rows.

    records: the number of the line, and its JSON value or an exception. Raise BadUsage if a record is
    invalid, and NotAdministrator; then nothing is stored.
    """
    faults, stored = Faults(), 0
    with transaction.atomic():
        for part in chunks(records):
            numbers: dict[UsageRecord, int] = {}
            for number, value in part:
                try:
                    numbers.setdefault(_parse_record(value), number)
                except _BadField as error:
                    faults.add(number, error.field, error.reason)

            def add_unknown(record: UsageRecord, name: str, numbers=numbers) -> None:
                field = "user" if name.startswith("user:") else "entity"
                faults.add(numbers[record], field, f"{name} is not known here")

            stored += store_usage(list(numbers), add_unknown)
        if faults.bad_lines:
            raise BadUsage(faults)
        if stored:
            # at the end, because all other changes wait while the journal is locked
            with administrator_transaction(author) as head:
                append_to_journal(
                    head,
                    [JournalEntry("usage-import", detail=f"{quantity(stored, 'day', 'days')} of use")],
                    author=author,
                )
    return stored


def _parse_record(value: object) -> UsageRecord:
    """Return a record. Raise _BadField for the first invalid member."""
    if isinstance(value, MalformedJson):
        raise _BadField("line", str(value))
    if not isinstance(value, Mapping):
        raise _BadField("line", "this must be an object")
    if unknown := sorted(set(value) - set(MEMBERS)):
        raise _BadField(unknown[0], f"unknown member; the known members are {', '.join(MEMBERS)}")
    user, entity, count = value.get("user"), value.get("entity"), value.get("count", 1)
    if not isinstance(user, str) or not user:
        raise _BadField("user", "this must be the name of a user")
    if not isinstance(entity, str):
        raise _BadField("entity", "this must be an address")
    try:
        address = parse_address(entity)
    except AddressError as error:
        raise _BadField("entity", str(error)) from None
    if isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= MAX_COUNT:
        raise _BadField("count", f"this must be a number from 1 to {MAX_COUNT:,}")
    return UsageRecord(user.removeprefix("user:"), address.kind, address.key, _day(value), count)


def _day(value: Mapping) -> date:
    if ("day" in value) == ("at" in value):
        raise _BadField("day", "exactly one of `day` and `at` is needed")
    field = "day" if "day" in value else "at"
    try:
        day = (
            date.fromisoformat(value["day"])
            if field == "day"
            else parse_time(value["at"]).astimezone(UTC).date()
        )
    except (TimeError, TypeError, ValueError) as error:
        raise _BadField(
            field, str(error) if isinstance(error, TimeError) else "this must be a day such as 2026-02-01"
        ) from None
    if day > timezone.now().date() + timedelta(days=1):
        raise _BadField(field, "this is in the future")
    return day


def _parsed_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, object]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield (
                number,
                json_from_bytes(line, text_name="the line", is_single_line=True, allows_surrogates=False),
            )
        except MalformedJson as error:
            yield number, error
