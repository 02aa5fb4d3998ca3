"""Report what an import changed, or would change, by type."""

from collections import Counter
from dataclasses import dataclass, field

MAX_WARNINGS_SHOWN = 20

ENTITIES_ADDED, ENTITIES_CHANGED = "entities added", "entities changed"
USERS_ADDED, USERS_CHANGED = "users added", "users changed"
GROUPS_ADDED = "groups added"
MEMBERS_ADDED, MEMBERS_REMOVED = "members added", "members removed"
GRANTS_ADDED = "grants added"
CHANGES = (ENTITIES_ADDED, ENTITIES_CHANGED, USERS_ADDED, USERS_CHANGED, GROUPS_ADDED, MEMBERS_ADDED, MEMBERS_REMOVED,
           GRANTS_ADDED)


@dataclass(slots=True)
class ImportReport:
    """The result of an import.

    lines: number of lines that are not blank. changes: counts by (one of CHANGES, detail such as `live dataset`).
    unchanged: counts of the entities, users, groups, members and grants that the import did not change.
    revision: the newest journal revision after the import.
    """

    lines: int
    dry_run: bool = False
    revision: int = 0
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)

    def total(self, change: str) -> int:
        return sum(count for (name, _), count in self.changes.items() if name == change)

    def __str__(self) -> str:
        head = f"{self.lines:,} {'line' if self.lines == 1 else 'lines'} read"
        if not self.changes:
            return "\n".join([f"{head}: nothing {'would change' if self.dry_run else 'changed'}", *self._warning_lines()])
        verb = "would be " if self.dry_run else ""
        rows = [f"  {verb}{name}: {self.total(name):,}{self._breakdown(name)}" for name in CHANGES if self.total(name)]
        return "\n".join([f"{head}, nothing written" if self.dry_run else f"{head}, now at revision {self.revision:,}",
                          *rows, *self._unchanged_lines(), *self._warning_lines()])

    def _breakdown(self, change: str) -> str:
        parts = [f"{count:,} {detail}" for (name, detail), count in sorted(self.changes.items()) if name == change and detail]
        return f" ({', '.join(parts)})" if parts else ""

    def _unchanged_lines(self) -> list[str]:
        parts = [f"{count:,} {name}" for name, count in self.unchanged.items() if count]
        return [f"  unchanged: {', '.join(parts)}"] if parts else []

    def _warning_lines(self) -> list[str]:
        rest = len(self.warnings) - MAX_WARNINGS_SHOWN
        more = [f"and {rest:,} more {'warning' if rest == 1 else 'warnings'}"] if rest > 0 else []
        return [f"warning: {warning}" for warning in self.warnings[:MAX_WARNINGS_SHOWN]] + more
