"""Follow renamed principals through the journal: lines before and after a rename state facts about the same
principal.
"""

from collections.abc import Iterable, Iterator

from grants.journal_details import parse_detail, period_detail
from grants.models import JournalLine
from grants.verification.facts import SEPARATOR, Fact

_REVISION, _ACTION, _PRINCIPAL, _DETAIL = (
    JournalLine.HASHED.index(name) for name in ("revision", "action", "principal", "detail")
)
_RENAMES = ("user-rename", "group-rename")
_MEMBERSHIPS = ("member-add", "member-remove")
# between a name and the revision of the rename after which another principal may have the name; in no name
_REUSED = "\x1e"


class Renames:
    """The names that principals had first, by their current names. Facts are stated with the first names."""

    def __init__(self) -> None:
        self._first_names: dict[str, str] = {}

    def translate_line(self, values: tuple) -> tuple:
        """Return the line with first names. values: in the order of `JournalLine.HASHED`."""
        if values[_ACTION] in _RENAMES:
            self._add(values[_PRINCIPAL], values[_DETAIL], values[_REVISION])
            return values
        if not self._first_names:
            return values
        line = list(values)
        line[_PRINCIPAL] = self._first_name(line[_PRINCIPAL])
        if line[_ACTION] in _MEMBERSHIPS:
            period, before, group = parse_detail(line[_DETAIL])
            line[_DETAIL] = period_detail(period, self._first_name(group), before=before)
        return tuple(line)

    def translate_facts(self, facts: Iterable[Fact]) -> Iterator[Fact]:
        """Yield the facts of the tables with first names."""
        if not self._first_names:
            yield from facts
            return
        for key, value in facts:
            type_, *names = key.split(SEPARATOR)
            yield SEPARATOR.join((type_, *map(self._first_name, names))), self._translated_value(type_, value)

    def _translated_value(self, type_: str, value: str | None) -> str | None:
        """Return a value with first names. The value of an identity is its account, that of approvers a
        group.

        The value of a token starts with its owner.
        """
        if value is None or type_ not in ("identity", "token", "approvers"):
            return value
        if type_ != "token":
            return self._first_name(value)
        owners = [name for name in self._first_names if value.startswith(f"{name}, ")]
        owner = max(owners, key=len, default="")
        return self._first_name(owner) + value[len(owner) :] if owner else value

    def _add(self, old: str, new: str, revision: int) -> None:
        first_name = self._first_name(old)
        self._first_names[old] = f"{old}{_REUSED}{revision}"
        self._first_names[new] = first_name

    def _first_name(self, name: str) -> str:
        return self._first_names.get(name, name)


def shown_name(name: str) -> str:
    """Return a first name as it was written in the journal."""
    return name.partition(_REUSED)[0]
