"""Change memberships of many users and groups together: all of them or none, in one transaction with their journal lines.

Existing memberships that are to be added, and missing ones that are to be removed, are skipped.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from django.contrib.auth.models import Group

from entities.vocabulary import clip
from grants.bulk_rows import chunks, insert_rows
from grants.changes.authority import administrator_transaction
from grants.errors import ChangeRefused, StaleBase
from grants.journal import Author, Change, append_to_journal
from grants.models import JournalHead, User
from grants.principal_names import name_fault
from grants.principal_rows import principals_by_name
from grants.querysets import memberships


class MembershipItem(NamedTuple):
    """One user in one group, both by name."""

    user: str
    group: str

    @property
    def principals(self) -> tuple[str, str]:
        return f"user:{self.user}", f"group:{self.group}"

    def __str__(self) -> str:
        return f"the membership of user:{self.user} in group:{self.group}"


@dataclass(frozen=True, slots=True)
class MembershipOutcome:
    """The memberships that were added and removed. unchanged: a sentence for each item that had no effect.

    principals: accounts of the console that became principals.
    """

    revision: int
    joined: tuple[MembershipItem, ...] = ()
    left: tuple[MembershipItem, ...] = ()
    unchanged: tuple[str, ...] = ()
    principals: tuple[str, ...] = ()

    @property
    def has_changed(self) -> bool:
        return bool(self.joined or self.left)

    @property
    def sentence(self) -> str:
        return self._sentence("added", "removed", "unchanged") or "nothing changed"

    @property
    def forecast_sentence(self) -> str:
        """The sentence of a dry run."""
        return self._sentence("would add", "would remove", "would stay as it is") or "nothing would change"

    def _sentence(self, added: str, removed: str, unchanged: str) -> str:
        counts = [f"{added} {len(self.joined):,}" if self.joined else "", f"{removed} {len(self.left):,}" if self.left else "",
                  f"{len(self.unchanged):,} {unchanged}" if self.unchanged else ""]
        return ", ".join(filter(None, counts)) if self.has_changed else ""


def change_memberships(*, author: Author, join: Iterable[MembershipItem] = (), leave: Iterable[MembershipItem] = (),
                       base_revision: int | None = None) -> MembershipOutcome:
    """Add and remove memberships, all of them or none.

    The number of statements does not grow with the number of items, up to `ROWS_PER_STATEMENT`.
    Raise StaleBase if `base_revision` is not the newest revision, ChangeRefused if an item is invalid.
    """
    with administrator_transaction(author) as head:
        if base_revision not in (None, head.revision):
            raise StaleBase(base_revision, head.revision)
        return write_memberships(head, author, join=join, leave=leave)


def write_memberships(head: JournalHead, author: Author, *, join: Iterable[MembershipItem] = (),
                      leave: Iterable[MembershipItem] = ()) -> MembershipOutcome:
    """Change memberships like `change_memberships`, inside an `administrator_transaction` of the caller.

    Runs no statement if there are no items.
    """
    items, principals = validated_memberships({"join": list(join), "leave": list(leave)})
    existing = _existing_memberships([*items["join"], *items["leave"]], principals)
    joined = [item for item in items["join"] if item not in existing]
    left = [item for item in items["leave"] if item in existing]
    for chunk in chunks(left):
        memberships().filter(pk__in=[existing[item] for item in chunk]).delete()
    insert_rows(memberships().model, ["user_id", "group_id"],
                [tuple(principals[name].pk for name in item.principals) for item in joined])
    new_principals = {name: user.pk for item in joined for name in item.principals[:1]
                      if isinstance(user := principals[name], User) and not user.is_principal}
    for chunk in chunks(new_principals.values()):
        User.objects.filter(pk__in=chunk).update(is_principal=True)
    if not joined and not left:
        return MembershipOutcome(head.revision, unchanged=tuple(_unchanged_sentences(items, existing)))
    revision = append_to_journal(head, [
        *(_journal_change("member-remove", item) for item in left),
        *(Change("principal-add", principal=name) for name in new_principals),
        *(_journal_change("member-add", item) for item in joined),
    ], author=author)
    return MembershipOutcome(revision, tuple(joined), tuple(left), tuple(_unchanged_sentences(items, existing)),
                             tuple(new_principals))


def validated_memberships(
    items_by_verb: Mapping[str, list[MembershipItem]],
) -> tuple[dict[str, list[MembershipItem]], dict[str, User | Group]]:
    """Return the items of each verb, and their users and groups by written name. Raise ChangeRefused with all invalid items."""
    positions: dict[MembershipItem, tuple[str, int]] = {}
    errors = []
    for verb, items in items_by_verb.items():
        for index, item in enumerate(items):
            if fault := name_fault(item.user) or name_fault(item.group):
                errors.append((index, verb, fault))
                continue
            first_verb, first_index = positions.setdefault(item, (verb, index))
            if (first_verb, first_index) != (verb, index):
                errors.append((index, verb, f"{item} repeats {first_verb}[{first_index}]: keep one of the two"))
    principals = principals_by_name({name for item in positions for name in item.principals})
    for item, (verb, index) in positions.items():
        if unknown := next((name for name in item.principals if name not in principals), ""):
            errors.append((index, verb, f"{clip(unknown)} does not exist: add it first, or correct the name"))
    if errors:
        raise ChangeRefused(sorted(errors, key=lambda error: (error[1], error[0])))
    items = {verb: [item for item, position in positions.items() if position[0] == verb] for verb in items_by_verb}
    return items, principals


def _existing_memberships(items: list[MembershipItem], principals: Mapping[str, User | Group]) -> dict[MembershipItem, int]:
    """Return the primary keys of the memberships that exist, by item."""
    existing = {}
    for chunk in chunks(items):
        by_key = {tuple(principals[name].pk for name in item.principals): item for item in chunk}
        rows = memberships().filter(user_id__in={user for user, _ in by_key}, group_id__in={group for _, group in by_key})
        for pk, *key in rows.values_list("pk", "user_id", "group_id"):
            if item := by_key.get(tuple(key)):
                existing[item] = pk
    return existing


def _unchanged_sentences(items: Mapping[str, list[MembershipItem]],
                         existing: Mapping[MembershipItem, int]) -> Iterator[str]:
    yield from (f"{item} exists already: nothing changed" for item in items["join"] if item in existing)
    yield from (f"{item} does not exist: nothing changed" for item in items["leave"] if item not in existing)


def _journal_change(action: str, item: MembershipItem) -> Change:
    user, group = item.principals
    return Change(action, principal=user, detail=group)
