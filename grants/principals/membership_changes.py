"""Change memberships of many users and groups together: all of them or none, in one transaction with their
journal lines.

Existing memberships that are to be added, and missing ones that are to be removed, are skipped. A membership
that exists with another period gets the new period.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from django.contrib.auth.models import Group
from django.utils import timezone

from entities.vocabulary import clip
from grants.bulk_rows import chunks, database_time, insert_rows, update_rows
from grants.changes.authority import administrator_transaction
from grants.changes.four_eyes import check_direct_change
from grants.errors import ChangeRefused, StaleBase
from grants.journal import Author, Change, append_to_journal
from grants.journal_details import period_detail
from grants.models import JournalHead, User
from grants.principal_names import name_fault
from grants.principal_rows import principals_by_name
from grants.querysets import memberships
from grants.validity import VALIDITY_COLUMNS, Validity, ValidityError

MembershipKey = tuple[str, str]


class MembershipItem(NamedTuple):
    """One user in one group, both by name, and the period of a new membership."""

    user: str
    group: str
    validity: Validity = Validity()

    @property
    def key(self) -> MembershipKey:
        """The identity of the membership, without its period."""
        return self.user, self.group

    @property
    def principals(self) -> tuple[str, str]:
        return f"user:{self.user}", f"group:{self.group}"

    def __str__(self) -> str:
        return f"the membership of user:{self.user} in group:{self.group}"


class StoredMembership(NamedTuple):
    """An existing membership. pk: its primary key."""

    pk: int
    validity: Validity


@dataclass(frozen=True, slots=True)
class MembershipOutcome:
    """The memberships that were added and removed.

    changed: existing memberships that got another period; items have the new one. periods_before: the periods
    of the changed and the removed memberships before. unchanged: a sentence for each item that had no effect.
    principals: accounts of the console that became principals.
    """

    revision: int
    joined: tuple[MembershipItem, ...] = ()
    left: tuple[MembershipItem, ...] = ()
    changed: tuple[MembershipItem, ...] = ()
    periods_before: Mapping[MembershipKey, Validity] = field(default_factory=dict)
    unchanged: tuple[str, ...] = ()
    principals: tuple[str, ...] = ()

    @property
    def has_changed(self) -> bool:
        return bool(self.joined or self.left or self.changed)

    @property
    def sentence(self) -> str:
        return self._sentence("added", "changed the period of", "removed", "unchanged") or "nothing changed"

    @property
    def forecast_sentence(self) -> str:
        """The sentence of a dry run."""
        return (
            self._sentence("would add", "would change the period of", "would remove", "would stay as it is")
            or "nothing would change"
        )

    def _sentence(self, added: str, changed: str, removed: str, unchanged: str) -> str:
        counts = [
            f"{added} {len(self.joined):,}" if self.joined else "",
            f"{changed} {len(self.changed):,}" if self.changed else "",
            f"{removed} {len(self.left):,}" if self.left else "",
            f"{len(self.unchanged):,} {unchanged}" if self.unchanged else "",
        ]
        return ", ".join(filter(None, counts)) if self.has_changed else ""


def change_memberships(
    *,
    author: Author,
    join: Iterable[MembershipItem] = (),
    leave: Iterable[MembershipItem] = (),
    base_revision: int | None = None,
) -> MembershipOutcome:
    """Add and remove memberships, all of them or none.

    The number of statements does not grow with the number of items, up to `ROWS_PER_STATEMENT`. Raise
    StaleBase if `base_revision` is not the newest revision, ChangeRefused if an item is invalid,
    ReasonMissing, or SecondPersonRequired if one person may not make the change alone.
    """
    with administrator_transaction(author) as head:
        if base_revision not in (None, head.revision):
            raise StaleBase(base_revision, head.revision)
        outcome = write_memberships(head, author, join=join, leave=leave)
        check_direct_change(
            author, joined=[*outcome.joined, *outcome.changed], left=outcome.left, is_written=True
        )
        return outcome


def write_memberships(
    head: JournalHead,
    author: Author,
    *,
    join: Iterable[MembershipItem] = (),
    leave: Iterable[MembershipItem] = (),
    allows_past_end: bool = False,
) -> MembershipOutcome:
    """Change memberships like `change_memberships`, inside an `administrator_transaction` of the caller.

    allows_past_end: accept periods that have ended, to restore a state. Runs no statement if there are no
    items.
    """
    items, principals = validated_memberships(
        {"join": list(join), "leave": list(leave)}, allows_past_end=allows_past_end
    )
    existing = _existing_memberships([*items["join"], *items["leave"]], principals)
    joined = [item for item in items["join"] if item.key not in existing]
    left = [item for item in items["leave"] if item.key in existing]
    changed = [
        item
        for item in items["join"]
        if item.key in existing and existing[item.key].validity != item.validity
    ]
    for chunk in chunks(left):
        memberships().filter(pk__in=[existing[item.key].pk for item in chunk]).delete()
    update_rows(
        memberships().model,
        VALIDITY_COLUMNS,
        [(*map(database_time, item.validity), existing[item.key].pk) for item in changed],
    )
    insert_rows(
        memberships().model,
        ["user_id", "group_id", *VALIDITY_COLUMNS],
        [
            (*(principals[name].pk for name in item.principals), *map(database_time, item.validity))
            for item in joined
        ],
    )
    new_principals = {
        name: user.pk
        for item in joined
        for name in item.principals[:1]
        if isinstance(user := principals[name], User) and not user.is_principal
    }
    for chunk in chunks(new_principals.values()):
        User.objects.filter(pk__in=chunk).update(is_principal=True)
    if not (joined or left or changed):
        return MembershipOutcome(head.revision, unchanged=tuple(_unchanged_sentences(items, existing)))
    revision = append_to_journal(
        head,
        [
            *(_journal_change("member-remove", item) for item in left),
            *(Change("principal-add", principal=name) for name in new_principals),
            *(_journal_change("member-add", item) for item in joined),
            *(_journal_change("member-add", item, existing[item.key].validity) for item in changed),
        ],
        author=author,
    )
    return MembershipOutcome(
        revision,
        tuple(joined),
        tuple(left),
        tuple(changed),
        {item.key: existing[item.key].validity for item in (*changed, *left)},
        tuple(_unchanged_sentences(items, existing)),
        tuple(new_principals),
    )


def validated_memberships(
    items_by_verb: Mapping[str, list[MembershipItem]],
    *,
    allows_past_end: bool = False,
) -> tuple[dict[str, list[MembershipItem]], dict[str, User | Group]]:
    """Return the items of each verb, and their users and groups by written name.

    Raise ChangeRefused with all invalid items.
    """
    positions: dict[MembershipKey, tuple[str, int]] = {}
    valid: dict[str, list[MembershipItem]] = {verb: [] for verb in items_by_verb}
    errors, now = [], timezone.now()
    for verb, items in items_by_verb.items():
        for index, item in enumerate(items):
            if (
                fault := name_fault(item.user)
                or name_fault(item.group)
                or ("" if allows_past_end else _past_end_fault(item.validity, now))
            ):
                errors.append((index, verb, fault))
                continue
            first_verb, first_index = positions.setdefault(item.key, (verb, index))
            if (first_verb, first_index) == (verb, index):
                valid[verb].append(item)
            else:
                errors.append(
                    (index, verb, f"{item} repeats {first_verb}[{first_index}]: keep one of the two")
                )
    principals = principals_by_name({name for item in chain(*valid.values()) for name in item.principals})
    for key, (verb, index) in positions.items():
        if unknown := next((name for name in MembershipItem(*key).principals if name not in principals), ""):
            errors.append((index, verb, f"{clip(unknown)} does not exist: add it first, or correct the name"))
    if errors:
        raise ChangeRefused(sorted(errors, key=lambda error: (error[1], error[0])))
    return valid, principals


def _past_end_fault(validity: Validity, now: datetime) -> str:
    try:
        validity.check_not_over(now)
    except ValidityError as error:
        return f"`{error.field}`: {error}"
    return ""


def _existing_memberships(
    items: list[MembershipItem], principals: Mapping[str, User | Group]
) -> dict[MembershipKey, StoredMembership]:
    """Return the memberships that exist, by the keys of the items."""
    existing = {}
    for chunk in chunks(items):
        by_key = {tuple(principals[name].pk for name in item.principals): item for item in chunk}
        rows = memberships().filter(
            user_id__in={user for user, _ in by_key}, group_id__in={group for _, group in by_key}
        )
        for pk, valid_from, valid_until, *key in rows.values_list(
            "pk", *VALIDITY_COLUMNS, "user_id", "group_id"
        ):
            if item := by_key.get(tuple(key)):
                existing[item.key] = StoredMembership(pk, Validity(valid_from, valid_until))
    return existing


def _unchanged_sentences(
    items: Mapping[str, list[MembershipItem]], existing: Mapping[MembershipKey, StoredMembership]
) -> Iterator[str]:
    yield from (
        f"{item} exists already: nothing changed"
        for item in items["join"]
        if item.key in existing and existing[item.key].validity == item.validity
    )
    yield from (
        f"{item} does not exist: nothing changed" for item in items["leave"] if item.key not in existing
    )


def _journal_change(action: str, item: MembershipItem, before: Validity | None = None) -> Change:
    user, group = item.principals
    period = item.validity if action == "member-add" else Validity()
    return Change(action, principal=user, detail=period_detail(period, group, before=before))
