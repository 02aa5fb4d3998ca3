"""Check the guardrails that changes can affect: evaluate them before and after the changes are made, and compare.

Only a violation that the changes add counts. A change of grants reads the guardrails with a clause that contains
one of its addresses, and evaluates these for the holders and the addresses of the change. New grants list no old
violations (`grants.guardrails.granted`). More than MAX_CHANGES changes, such as those of an import, are checked
against all guardrails.

INVARIANT: the changes are made in the transaction of the check, under the lock of the journal.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, islice
from typing import TypeVar

from django.contrib.auth.models import Group
from django.db import transaction

from entities.address import Address
from entities.errors import Refusal
from entities.frozen import frozen
from entities.patterns import has_patterns, rows_about
from entities.selectors import entities_at
from entities.vocabulary import CONTAINER_KINDS
from grants.bulk_rows import ROWS_PER_FETCH, chunks
from grants.change_set import (
    Activate,
    ActivateGeneration,
    Addition,
    AddUser,
    Change,
    Deactivate,
    Delete,
    Exclude,
    Grant,
    Include,
    Join,
    Leave,
    MakePrincipal,
    Recreate,
    Register,
    RemovePrincipal,
    Revoke,
    principals_of,
)
from grants.errors import GuardrailHolds
from grants.guardrails.evaluation import (
    EVERYTHING,
    Part,
    Statement,
    Violation,
    among,
    forbidden_statement,
    memberships_among,
    too_few,
    unexpected_decisions,
    violations_in,
)
from grants.guardrails.exceptions import Exceptions
from grants.guardrails.granted import NewGrants, PlacedClause, clauses_where, has_more_members
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import (
    GROUP,
    USER,
    Enforcement,
    Form,
    Guardrail,
    JournalHead,
    RoleGroup,
    User,
    permission_ids,
)
from grants.policies.principals import group_text
from grants.policies.times import format_time
from grants.principal_names import principals_by_name
from grants.validity import at_time, question_time

# more changes are checked against all guardrails
MAX_CHANGES = 500
# groups with more members together are not read into memory
MAX_MEMBERS = 10_000
# how many added violations are named, and have a journal line of their own
MAX_LISTED = 100
MAX_NAMED = 5
# the time of the change, and the first beginnings, at which expected decisions are evaluated
MAX_TIMES = 4
VIOLATE_ACTION = "guardrail-violate"
_FORBIDDING = (Form.FORBID, Form.FORBID_BOTH)
_ENDINGS = Deactivate | RemovePrincipal | Delete
Result = TypeVar("Result")


@frozen
class Added:
    """A violation that changes add. accepted_until: the end of the exception that accepts it;
    None without one. is_blocked: whether it refuses the changes.
    """

    violation: Violation
    guardrail: Guardrail
    accepted_until: datetime | None
    is_blocked: bool

    @property
    def sentence(self) -> str:
        reason = f" ({self.guardrail.reason})" if self.guardrail.reason else ""
        end = (
            f"; an exception accepts this until {format_time(self.accepted_until)}"
            if self.accepted_until
            else ""
        )
        return f"{self.short_sentence}: {self.violation.sentence('would hold')}{reason}{end}"

    @property
    def short_sentence(self) -> str:
        """The sentence for an author who may not see all grants."""
        return f"guardrail {self.guardrail} {'forbids this change' if self.is_blocked else 'is violated'}"


@dataclass(slots=True)
class AddedViolations:
    """The first MAX_LISTED violations that changes add, and that are blocked and not.

    total: of all. is_disclosed: whether the sentences name principals and entities.
    """

    rows: list[Added] = field(default_factory=list)
    total: int = 0
    is_disclosed: bool = True

    @property
    def blocked(self) -> list[Added]:
        return [row for row in self.rows if row.is_blocked]

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the changes violate; at most MAX_NAMED of each kind are named."""
        if not self.is_disclosed:
            return tuple(dict.fromkeys(row.short_sentence for row in self.rows))
        named = [*self.blocked[:MAX_NAMED], *[row for row in self.rows if not row.is_blocked][:MAX_NAMED]]
        rest = self.total - len(named)
        more = [f"and {rest:,} more {'violation' if rest == 1 else 'violations'}"] if rest else []
        return (*(row.sentence for row in named), *more)


def make_within_guardrails(
    head: JournalHead,
    author: Author,
    changes: Iterable[Change] | None,
    make: Callable[[], Result],
    *,
    is_ending: bool = False,
    new: Collection[str] = (),
    is_recorded: bool = True,
) -> tuple[Result, AddedViolations]:
    """Make changes, and append a journal line for each violation that they add and that no guardrail blocks.

    changes, new: see `make_and_compare`. is_ending: whether the changes end the access of a leaver. is_recorded:
    whether journal lines are appended. For an author who may not see all grants, the error and
    the result name the guardrails only. Raise GuardrailHolds if a guardrail blocks one and no
    exception accepts it; the caller's transaction must then be rolled back.
    """
    result, added = make_and_compare(changes, make, is_ending=is_ending or author.is_provisioner, new=new)
    added.is_disclosed = is_disclosed = not added.rows or _may_see_all(author)
    if added.blocked:
        raise GuardrailHolds(
            "\n".join(
                (
                    *(
                        f"{sentence}."
                        for sentence in AddedViolations(
                            added.blocked, len(added.blocked), is_disclosed
                        ).sentences
                    ),
                    "Change the grants so that they meet the guardrail, or ask an administrator for an exception",
                )
            ),
            # one for each guardrail, because their number would disclose members of a group, or grants elsewhere
            [row.violation._asdict() for row in added.blocked]
            if is_disclosed
            else [
                {"guardrail": name}
                for name in dict.fromkeys(row.violation.guardrail for row in added.blocked)
            ],
        )
    if added.rows and is_recorded:
        append_to_journal(head, map(_entry, added.rows), author=author)
    return result, added


def make_and_compare(
    changes: Iterable[Change] | None,
    make: Callable[[], Result],
    *,
    is_ending: bool = False,
    new: Collection[str] = (),
) -> tuple[Result, AddedViolations]:
    """Make changes. Return the result, and the violations that they add.

    changes: None for changes that can affect everything. new: the names of guardrails that `make` writes, which
    are not compared. Without guardrails, one query runs in addition to those of `make`.
    """
    if evaluation := _needed_evaluation(changes):
        return evaluation.compare(make, is_ending=is_ending, new=new)
    return make(), AddedViolations()


def preview_violations(changes: Iterable[Change], make: Callable[[JournalHead], object]) -> AddedViolations:
    """Return the violations that changes would add; none for changes that cannot be made.

    Without guardrails that the changes can affect, this runs the queries that find them. Otherwise the changes are
    made under the lock of the journal, and rolled back.
    """
    if (evaluation := _needed_evaluation(changes)) is None:
        return AddedViolations()
    try:
        with transaction.atomic():
            head = lock_journal()
            _, added = evaluation.compare(lambda: make(head))
            transaction.set_rollback(True)
    except Refusal:
        return AddedViolations()
    return added


def _needed_evaluation(changes: Iterable[Change] | None) -> "_Evaluation | None":
    """Return what changes can affect; None if they can violate no guardrail. Runs the queries that find the guardrails."""
    forms = frozenset(Guardrail.objects.order_by().values_list("form", flat=True).distinct())
    if not forms:
        return None
    first = None if changes is None else list(islice(changes, MAX_CHANGES + 1))
    evaluation = _Evaluation.of(first, forms)
    return None if evaluation.is_nothing else evaluation


def _may_see_all(author: Author) -> bool:
    """Return whether the author may see all grants, as commands may. Runs at most one query."""
    if author.user_id is None:
        return True
    account = User.objects.filter(pk=author.user_id).first()
    return account is not None and account.can_see_all


def _judge_violations(violations: Iterable[Violation], is_ending: bool) -> AddedViolations:
    """Return the violations with what follows from them. is_ending: the changes end access, which is always
    possible; so they can violate only what guardrails forbid.
    """
    result, exceptions = AddedViolations(), None
    guardrails: dict[str, Guardrail] = {}
    seen: set[tuple] = set()
    listed: Counter[bool] = Counter()
    for chunk in chunks(violations, ROWS_PER_FETCH):
        exceptions = exceptions or Exceptions()
        names = {violation.guardrail for violation in chunk} - guardrails.keys()
        guardrails |= Guardrail.objects.filter(name__among=list(names)).in_bulk(field_name="name")
        for violation in chunk:
            if violation.key in seen:
                continue
            if len(seen) < MAX_LISTED * 10:
                seen.add(violation.key)
            guardrail, accepting = guardrails[violation.guardrail], exceptions.accepting(violation)
            is_blocked = (
                guardrail.level == Enforcement.BLOCK
                and accepting is None
                and not (is_ending and guardrail.form not in _FORBIDDING)
            )
            result.total += 1
            if listed[is_blocked] < MAX_LISTED:
                listed[is_blocked] += 1
                result.rows.append(
                    Added(violation, guardrail, accepting.valid_until if accepting else None, is_blocked)
                )
    return result


def _entry(row: Added) -> JournalEntry:
    violation = row.violation
    privilege = violation.privilege if row.guardrail.form != Form.EXPECT else ""
    end = f"; exception until {format_time(row.accepted_until)}" if row.accepted_until else ""
    return JournalEntry(
        VIOLATE_ACTION,
        violation.principal,
        violation.entity,
        privilege,
        f"{violation.guardrail}: {violation.sentence()}{end}",
    )


class _Keys:
    """The keys of violations. Those of a whole tenant may not fit into memory, so they are in a temporary file."""

    def __init__(self, violations: Iterable[Violation]):
        rows = iter(violations)
        self._few = {row.key for row in islice(rows, 10_000)}
        self._many: sqlite3.Connection | None = None
        if (first := next(rows, None)) is not None:
            # an empty name is a temporary file that SQLite deletes
            self._many = sqlite3.connect("")
            self._many.execute("CREATE TABLE keys (key TEXT PRIMARY KEY) WITHOUT ROWID")
            self._many.executemany(
                "INSERT OR IGNORE INTO keys VALUES (?)", ((_text(row),) for row in chain((first,), rows))
            )

    def __contains__(self, violation: Violation) -> bool:
        if violation.key in self._few:
            return True
        if self._many is None:
            return False
        query = "SELECT 1 FROM keys WHERE key = ?"
        return self._many.execute(query, (_text(violation),)).fetchone() is not None


def _text(violation: Violation) -> str:
    return "\x1f".join(violation.key)


@frozen
class _Evaluation:
    """What changes can affect.

    granted: the new grants, if nothing else is changed. forbidding: by form, a part and its addresses for other changes. The
    addresses may be registered by the changes.
    required: the addresses, and the primary keys of other entities, that can lose a holder. expected: the
    guardrails with an expected decision. times: when these are evaluated. is_ending: whether the changes only end
    access. statements: those of `forbidding`, which are written once.
    """

    is_everything: bool = False
    granted: NewGrants | None = None
    forbidding: tuple[tuple[Form, Part, frozenset[Address] | None], ...] = ()
    required: tuple[frozenset[Address], frozenset[int]] = (frozenset(), frozenset())
    expected: frozenset[int] = frozenset()
    times: tuple[datetime, ...] = ()
    is_ending: bool = False
    statements: dict[tuple[Form, Part], Statement | None] = field(default_factory=dict)

    @classmethod
    def of(cls, changes: list[Change] | None, forms: Collection[str]) -> "_Evaluation":
        if changes is None or len(changes) > MAX_CHANGES or _give_to_new_users(changes):
            return cls(is_everything=True, times=(question_time(),))
        affected = _Affected.by(changes)
        places = _with_containers(affected.changed | affected.states)
        registered = entities_at(places)
        affected.new = places - registered.keys()
        if _changes_patterns(affected):
            return cls(is_everything=True, times=(question_time(),))
        clauses = _clauses_at(affected.changed | affected.states, places)
        granted = None
        forbidding: tuple[tuple[Form, Part, frozenset[Address] | None], ...] = ()
        if affected.gaining or not all(isinstance(change, Grant) for change in changes):
            forbidding = tuple(_forbidding_parts(affected, clauses, forms))
        elif guarded := _guarded_clauses(affected, clauses):
            if affected.groups and has_more_members(affected.groups, MAX_MEMBERS):
                forbidding = tuple(_forbidding_parts(affected, clauses, forms))
            else:
                part = Part(users=frozenset(affected.users), groups=frozenset(affected.groups))
                entities = [registered[address] for address in affected.granted - affected.new]
                granted = NewGrants(part, guarded, entities, affected.granted & affected.new)
        return cls(
            granted=granted,
            forbidding=forbidding,
            required=_entities_at_risk(affected, clauses)
            if Form.REQUIRE in forms
            else (frozenset(), frozenset()),
            expected=_expectations_at_risk(affected, clauses) if Form.EXPECT in forms else frozenset(),
            times=_times(changes),
            is_ending=_only_ends_access(changes),
        )

    @property
    def is_nothing(self) -> bool:
        return not (
            self.is_everything or self.granted or self.forbidding or any(self.required) or self.expected
        )

    def compare(
        self, make: Callable[[], Result], *, is_ending: bool = False, new: Collection[str] = ()
    ) -> tuple[Result, AddedViolations]:
        """Make the changes. Return the result, and the violations that they add; see `make_and_compare`."""
        before, granted = _Keys(self._rows()), self.granted
        holdings = granted.own_holdings() if granted else ()
        result = make()
        added = (row for row in self._rows() if row.guardrail not in new and row not in before)
        from_grants = granted.new_violations(holdings) if granted else ()
        return result, _judge_violations(chain(from_grants, added), self.is_ending or is_ending)

    def _rows(self) -> Iterator[Violation]:
        if self.is_everything:
            for form in _FORBIDDING:
                if statement := forbidden_statement(form, EVERYTHING, is_lasting=True):
                    yield from violations_in(statement, EVERYTHING)
            yield from too_few()
            yield from unexpected_decisions()
            return
        for form, part, addresses in self.forbidding:
            if addresses is not None:
                entities = frozenset(entity.pk for entity in entities_at(addresses).values())
                part = replace(part, entities=entities)
            if (form, part) not in self.statements:
                self.statements[form, part] = forbidden_statement(form, part, is_lasting=True)
            if statement := self.statements[form, part]:
                yield from violations_in(statement)
        addresses, others = self.required
        if entities := frozenset(entity.pk for entity in entities_at(addresses).values()) | others:
            yield from too_few(Part(entities=entities))
        if self.expected:
            for time in self.times:
                with at_time(time):
                    rows = list(unexpected_decisions(Part(guardrails=self.expected)))
                yield from rows


@dataclass(slots=True)
class _Affected:
    """What changes name, as primary keys and addresses.

    users, groups: the holders of changed grants. gaining, losing: users who gain or lose access.
    gaining_groups: groups whose members gain access. losing_groups: groups and roles whose members
    lose access. permissions: those of the grants.
    granted, changed: the addresses of grants, and of grants and revocations. shortened: addresses and permissions of
    grants that may end. states: addresses that get another state. new: addresses and containers that are not registered.
    """

    users: set[int] = field(default_factory=set)
    groups: set[int] = field(default_factory=set)
    gaining: set[int] = field(default_factory=set)
    gaining_groups: set[int] = field(default_factory=set)
    losing: set[int] = field(default_factory=set)
    losing_groups: set[int] = field(default_factory=set)
    granted: set[Address] = field(default_factory=set)
    permissions: set[int] = field(default_factory=set)
    changed: set[Address] = field(default_factory=set)
    shortened: set[tuple[Address, int]] = field(default_factory=set)
    states: set[Address] = field(default_factory=set)
    new: set[Address] = field(default_factory=set)
    has_generation: bool = False

    @classmethod
    def by(cls, changes: Iterable[Change]) -> "_Affected":
        """Return what these changes affect. Runs at most three queries."""
        affected = cls()
        found: dict[str, list[set[int]]] = {}

        def add(name: str, users: set[int], groups: set[int] | None = None) -> None:
            is_user = name.startswith(f"{USER.name}:")
            found.setdefault(name, []).append(users if is_user or groups is None else groups)

        for change in changes:
            match change:
                case Grant(principal, address, privilege, validity):
                    add(principal, affected.users, affected.groups)
                    affected.granted.add(address)
                    affected.changed.add(address)
                    affected.permissions.add(permission_ids()[privilege])
                    if validity.is_limited:
                        affected.shortened.add((address, permission_ids()[privilege]))
                case Revoke(principal, address, privilege):
                    add(principal, affected.users, affected.groups)
                    affected.changed.add(address)
                    affected.shortened.add((address, permission_ids()[privilege]))
                case Join(user) | Activate(user) | MakePrincipal(user) | AddUser(user):
                    add(f"user:{user}", affected.gaining)
                case Leave(user, group):
                    add(f"user:{user}", affected.losing)
                    add(group_text(group), affected.losing_groups)
                case Include(group):
                    add(group_text(group), affected.gaining_groups)
                case Exclude(group, role):
                    add(group_text(group), affected.losing_groups)
                    add(group_text(role), affected.losing_groups)
                case Deactivate(user):
                    add(f"user:{user}", affected.losing)
                case RemovePrincipal(principal):
                    add(principal, affected.losing, affected.losing_groups)
                case Register(address, creator) | Recreate(address, creator):
                    affected.states.add(address)
                    if creator:
                        add(creator, affected.users)
                        affected.granted.add(address)
                        affected.permissions.update(permission_ids().values())
                case Delete(address):
                    affected.states.add(address)
                case ActivateGeneration():
                    affected.has_generation = True
        for name, row in principals_by_name(found).items():
            for pks in found[name]:
                pks.add(row.pk)
            if isinstance(row, User) and not row.is_principal:
                # the first grant makes the account a principal, and its other grants count from then on
                affected.gaining.add(row.pk)
        if affected.losing_groups:
            roles = RoleGroup.objects.filter(group__in=affected.losing_groups)
            affected.losing_groups.update(roles.values_list("role_id", flat=True))
        return affected


def _give_to_new_users(changes: Collection[Change]) -> bool:
    """Return whether users that the changes add get grants or memberships: they have no primary key before the changes."""
    new = {str(change) for change in changes if isinstance(change, AddUser)}
    return bool(new) and any(
        not new.isdisjoint(principals_of(change))
        if isinstance(change, Addition)
        else isinstance(change, Register | Recreate) and change.creator in new
        for change in changes
    )


def _changes_patterns(affected: _Affected) -> bool:
    """Return whether a grant on a pattern changes, or the changes register an address on the way that a pattern matches,
    such as a container of a granted address: both give grants that the changes do not name.
    """
    new = affected.new - (affected.states - affected.changed)
    return any(address.is_pattern for address in affected.changed) or (
        bool(new) and has_patterns() and any(rows_about(address).exists() for address in new)
    )


def _clauses_at(changed: Collection[Address], places: Collection[Address]) -> list[PlacedClause]:
    """Return the clauses with one of these places, those with all entities of their kinds, and the decisions about what is
    inside changed containers. Runs at most one query.
    """
    if not places:
        return []
    among_kinds, kinds = among("clause.kind", {place.kind for place in places})
    among_keys, keys = among("clause.key", {"", *(place.key for place in places)})
    inside = [
        "" if address.kind == "instance" else f"{address.key}."
        for address in changed
        if address.kind in CONTAINER_KINDS
    ]
    conditions = [f"{among_kinds} AND {among_keys}"]
    conditions += [f"guardrail.form = '{Form.EXPECT}' AND substr(clause.key, 1, %s) = %s"] * len(inside)
    prefixes = chain.from_iterable((len(prefix), prefix) for prefix in inside)
    rows = clauses_where(" OR ".join(conditions), [*kinds, *keys, *prefixes])
    # a dataset and a stream can have the same key
    return [row for row in rows if not row.key or row.place in places or row.form == Form.EXPECT]


def _guarded_clauses(affected: _Affected, clauses: Iterable[PlacedClause]) -> tuple[PlacedClause, ...]:
    """Return the clauses of the guardrails that new grants can violate."""
    found = _guardrails_at(clauses, affected.granted, affected.permissions)
    guardrails = set().union(*found.values())
    return tuple(clause for clause in clauses if clause.guardrail in guardrails)


def _forbidding_parts(
    affected: _Affected, clauses: Collection[PlacedClause], forms: Collection[str]
) -> Iterator[tuple[Form, Part, frozenset[Address] | None]]:
    granted = _guardrails_at(clauses, affected.granted, affected.permissions)
    states = _guardrails_at(clauses, affected.states)
    for form in _FORBIDDING:
        # the other privilege of two can be held anywhere
        has_place = form == Form.FORBID
        if ids := granted.get(form):
            part = Part(frozenset(ids), frozenset(affected.users), frozenset(affected.groups))
            yield form, part, frozenset(affected.granted) if has_place else None
        if ids := states.get(form):
            yield form, Part(frozenset(ids)), frozenset(affected.states) if has_place else None
        if (affected.gaining or affected.gaining_groups) and form in forms:
            yield (
                form,
                Part(users=frozenset(affected.gaining), groups=frozenset(affected.gaining_groups)),
                None,
            )


def _guardrails_at(
    clauses: Iterable[PlacedClause],
    addresses: Iterable[Address],
    permissions: Collection[int] | None = None,
) -> dict[str, set[int]]:
    """Return the guardrails that forbid privileges, by form, with a clause that contains one of the addresses."""
    places = _with_containers(addresses)
    found: dict[str, set[int]] = {}
    for clause in clauses:
        if (
            clause.form in _FORBIDDING
            and clause.place in places
            and (permissions is None or clause.permission in permissions)
        ):
            found.setdefault(clause.form, set()).add(clause.guardrail)
    return found


def _entities_at_risk(
    affected: _Affected, clauses: Iterable[PlacedClause]
) -> tuple[frozenset[Address], frozenset[int]]:
    """Return the entities that the changes can leave with too few holders. Runs at most three queries."""
    if affected.losing or affected.losing_groups:
        clauses = clauses_where("guardrail.form = %s", [Form.REQUIRE])
    required = {(clause.kind, clause.permission) for clause in clauses if clause.form == Form.REQUIRE}
    kinds = {kind for kind, _ in required}
    shortened = {
        address for address, permission in affected.shortened if (address.kind, permission) in required
    }
    # a new grant takes no holder away, but can register its address and the containers of it
    addresses = {address for address in affected.new | affected.states if address.kind in kinds}
    others: set[int] = set()
    users, groups = affected.losing, set(affected.losing_groups)
    if users:
        groups |= set(_memberships_of(users))
    everywhere: dict[str, set[str]] = {}
    where_shortened = {
        "content_object__kind__in": {address.kind for address in shortened},
        "content_object__key__in": {address.key for address in shortened},
    }
    for holder, pks, places in (
        (USER, users, everywhere),
        (GROUP, groups, everywhere),
        # what they do not hold yet cannot be taken away
        (USER, affected.users if shortened else (), where_shortened),
        (GROUP, affected.groups if shortened else (), where_shortened),
    ):
        if pks:
            rows = holder.held_grants.filter(
                # the kind is empty in rows that an earlier version wrote
                entity_kind__in=(*kinds, ""),
                permission_id__in={permission for _, permission in required},
                **{f"{holder.name}__pk__among": list(pks)},
                **places,
            )
            others.update(rows.order_by().values_list("content_object_id", flat=True).distinct())
    return frozenset(addresses), frozenset(others)


def _memberships_of(users: Collection[int]) -> Iterable[int]:
    rows = Group.objects.filter(belongings__user__pk__among=list(users))
    return rows.values_list("pk", flat=True).distinct()


def _expectations_at_risk(affected: _Affected, clauses: Iterable[PlacedClause]) -> frozenset[int]:
    """Return the guardrails with a decision that the changes can change. Runs at most four queries."""
    people = affected.gaining | affected.losing
    changed_groups = affected.gaining_groups | affected.losing_groups
    changed = affected.changed | affected.states
    if affected.has_generation or people or changed_groups:
        clauses = clauses_where("guardrail.form = %s", [Form.EXPECT])
    expected = [clause for clause in clauses if clause.form == Form.EXPECT]
    if affected.has_generation:
        return frozenset(clause.guardrail for clause in expected)
    if changed_groups:
        people |= set(memberships_among(changed_groups, is_lasting=True).values_list("user_id", flat=True))
    related = expected
    if related and not affected.states:
        users, groups = set(affected.users), affected.groups | changed_groups
        if groups:
            if any(row.group for row in related):
                # the grants of a role count for its groups
                groups |= set(RoleGroup.objects.filter(role__in=groups).values_list("group_id", flat=True))
            members = memberships_among(groups, is_lasting=True)
            members = members.filter(user__pk__among=[row.user for row in related if row.user])
            users |= set(members.values_list("user_id", flat=True))
        related = [row for row in related if row.user in users or row.group in groups]
    related = [row for row in related if any(_is_related(row.place, address) for address in changed)]
    of_people = (row for row in expected if row.user in people or row.group in changed_groups)
    return frozenset(row.guardrail for row in chain(related, of_people))


def _is_related(one: Address, other: Address) -> bool:
    return one == other or one in other.ancestors or other in one.ancestors


def _only_ends_access(changes: Collection[Change]) -> bool:
    """Return whether users or entities go, and nothing else changes than the access of these users and to these entities."""
    gone: set[str | Address] = set()
    for change in changes:
        match change:
            case Deactivate(user):
                gone.add(f"user:{user}")
            case RemovePrincipal(principal) if principal.startswith("user:"):
                gone.add(principal)
            case Delete(address):
                gone.add(address)

    def is_of_gone(change: Change) -> bool:
        match change:
            case Revoke(principal, address):
                return not gone.isdisjoint((principal, address, *address.ancestors))
            case Leave() | Exclude():
                return not gone.isdisjoint(change.key)
            case RemovePrincipal(principal):
                return principal in gone
        return isinstance(change, _ENDINGS)

    return bool(gone) and all(map(is_of_gone, changes))


def _times(changes: Iterable[Change]) -> tuple[datetime, ...]:
    now = question_time()
    begins = {
        change.validity.valid_from
        for change in changes
        if isinstance(change, Addition) and change.validity.valid_from
    }
    return (now, *sorted(begin for begin in begins if begin > now)[: MAX_TIMES - 1])


def _with_containers(addresses: Iterable[Address]) -> set[Address]:
    return {place for address in addresses for place in (address, *address.ancestors)}
