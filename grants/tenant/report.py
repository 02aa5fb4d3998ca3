"""One import of a document: what it changed, or would change, by type, and its journal lines."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import JournalHead
from grants.tenant.reading import Document
from grants.validity import Validity

MAX_WARNINGS_SHOWN = 20


class Counted(StrEnum):
    """What the report of an import counts, in its order."""

    ENTITIES_ADDED = "entities added"
    ENTITIES_CHANGED = "entities changed"
    USERS_ADDED = "users added"
    USERS_CHANGED = "users changed"
    GROUPS_ADDED = "groups added"
    MEMBERS_ADDED = "members added"
    MEMBERS_CHANGED = "periods of members changed"
    MEMBER_PERIODS_REMOVED = "periods of members removed"
    MEMBERS_REMOVED = "members removed"
    GRANTS_ADDED = "grants added"
    GRANTS_CHANGED = "periods of grants changed"
    GRANT_PERIODS_REMOVED = "periods of grants removed"
    GUARDRAILS_ADDED = "guardrails added"
    GUARDRAILS_CHANGED = "guardrails changed"
    EXCEPTIONS_ADDED = "exceptions added"
    EXCEPTIONS_CHANGED = "exceptions changed"
    EXCEPTIONS_REMOVED = "exceptions removed"


@dataclass(slots=True)
class ImportReport:
    """The result of an import.

    lines: number of lines that are not blank. changes: the numbers by (what is counted, detail such as `live
    dataset`).
    unchanged: counts of the entities, users, groups, members, grants and guardrails that the import did not change.
    removed_periods: the first removed periods, each as a warning; `changes` counts all of them.
    written_guardrails: the names of new and changed guardrails. revision: the newest journal revision after the
    import.
    """

    lines: int
    dry_run: bool = False
    revision: int = 0
    changes: Counter[tuple[Counted, str]] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    removed_periods: list[str] = field(default_factory=list)
    written_guardrails: set[str] = field(default_factory=set)

    def warn_of_removed_period(self, line: int, what: str, period: Validity) -> None:
        """Report a grant or a membership that is listed without its period. what: such as `READ on X of
        user:Y`.
        """
        if len(self.removed_periods) < MAX_WARNINGS_SHOWN:
            verb = "would remove" if self.dry_run else "removes"
            self.removed_periods.append(
                f"line {line} has no times, so it {verb} the period of {what}, which counts {period.sentence}"
            )

    def total(self, change: Counted) -> int:
        return sum(count for (name, _), count in self.changes.items() if name == change)

    def __str__(self) -> str:
        head = f"{self.lines:,} {'line' if self.lines == 1 else 'lines'} read"
        if not self.changes:
            return "\n".join(
                [f"{head}: nothing {'would change' if self.dry_run else 'changed'}", *self._warning_lines()]
            )
        verb = "would be " if self.dry_run else ""
        rows = [
            f"  {verb}{name}: {self.total(name):,}{self._breakdown(name)}"
            for name in Counted
            if self.total(name)
        ]
        return "\n".join(
            [
                f"{head}, nothing written" if self.dry_run else f"{head}, now at revision {self.revision:,}",
                *rows,
                *self._unchanged_lines(),
                *self._warning_lines(),
            ]
        )

    def _breakdown(self, change: Counted) -> str:
        parts = [
            f"{count:,} {detail}"
            for (name, detail), count in sorted(self.changes.items())
            if name == change and detail
        ]
        return f" ({', '.join(parts)})" if parts else ""

    def _unchanged_lines(self) -> list[str]:
        parts = [f"{count:,} {name}" for name, count in self.unchanged.items() if count]
        return [f"  unchanged: {', '.join(parts)}"] if parts else []

    def _warning_lines(self) -> list[str]:
        removed = self.total(Counted.GRANT_PERIODS_REMOVED) + self.total(Counted.MEMBER_PERIODS_REMOVED)
        shown = [*self.removed_periods, *self.warnings][:MAX_WARNINGS_SHOWN]
        rest = removed + len(self.warnings) - len(shown)
        more = [f"and {rest:,} more {'warning' if rest == 1 else 'warnings'}"] if rest > 0 else []
        return [f"warning: {warning}" for warning in shown] + more


@dataclass(slots=True)
class ImportRun:
    """An import while it runs, under the lock of the journal. head: the locked head."""

    document: Document
    report: ImportReport
    head: JournalHead
    author: Author

    def record(self, entries: list[JournalEntry]) -> None:
        """Append journal lines, unless this is a dry run."""
        if entries and not self.report.dry_run:
            append_to_journal(self.head, entries, author=self.author)
