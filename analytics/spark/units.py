"""One part of a tenant as rows of numbers, cut into units: entities by position, and who holds which facts at which positions.

A unit is some families, or one block of a family that is too large, laid out by kind and family, so that a kind is one stretch of
words and each family in it a run that begins with a word of its own. A fact has a row of bits for everybody who holds it; what
a user holds is the OR of the user's own row and those of the user's groups. No loop passes over users, and none over pairs of
users and entities.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

WORD_BITS = 64
# of a unit; one of a family that is larger is about as large
UNIT_ENTITIES = 32_768
# what is held by the users that are judged at once: as much as stays near a core
ROWS_BYTES = 4_000_000

# what a row of a part says
TARGET, GRANT, ANYWHERE, NAMESPACE_WIDE, INSTANCE_WIDE, FACT, MEMBER, USER = range(8)
COLUMNS = ("tag", "family", "block", "principal", "what", "entity", "application")
# of a grant: the privilege, the kind of the entity from 1 on where the grant is what tells of it, and the rank of its family
PRIVILEGE_BITS, KIND_BITS = 3, 13
NOTHING = -1
# principals as numbers: a user's own, a group's by `group_number`, and whoever there is
EVERYBODY = -1

# Python workers, on a cluster above all, need not have this package installed
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ALL_BITS, NO_BITS = np.uint64(2**64 - 1), np.uint64(0)
# numbers are looked up in a table that has no more places than so many for each
_SPARSE = 64
# an odd number that spreads others over all bits
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_NONE = np.empty(0, np.int64)
_NOBODY = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class FactForm:
    """How grants make a fact true, as Python workers take it.

    form: `self`, `application`, `namespace`, `instance` (a grant on the place of that name), `below` (a grant in a container, of
    the container), `anywhere` (a grant in the family, of all in it) or `told` (FACT rows say so). privileges: one bit each.
    kinds: the numbers of those whose rules ask for it.
    """

    form: str
    privileges: int
    kinds: frozenset[int]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows by what they say, each a mapping of COLUMNS; names: of the TARGET rows, where they were asked for.

    A principal there is the index of a user, EVERYBODY, or a group's index counted down from below it; there are no others.
    groups: how many. member_users, member_groups: the indexes of each member and its group, by user. user_ids: by index.
    user_places: likewise the places among all by name. member_marks: as may_be_members looks at them.
    """

    blocks: dict[int, dict[str, np.ndarray]]
    names: pa.Array | None
    groups: int
    member_users: np.ndarray
    member_groups: np.ndarray
    user_ids: np.ndarray
    user_places: np.ndarray
    member_marks: np.ndarray

    def may_be_members(self, users: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """False only where the user is no member of the group; by index."""
        return self.member_marks[self._mark(users, groups)]

    def members_mark(self) -> None:
        # a table of marks that some share is asked in a fraction of the time that a search takes
        self.member_marks[self._mark(self.member_users, self.member_groups)] = True

    def _mark(self, users: np.ndarray, groups: np.ndarray) -> np.ndarray:
        spread = (users * self.groups + groups).astype(np.uint64) * _SPREAD
        return (spread >> np.uint64(64 - _marks(len(self.member_users)))).astype(np.int64)


def _marks(members: int) -> int:
    """So many bits number the marks for them."""
    return (32 * members + 1).bit_length()


def part_of(batches: list[pa.RecordBatch]) -> Part:
    """The part that these batches hold; every column of COLUMNS, and `name` where names were asked for."""
    table = pa.Table.from_batches(batches).combine_chunks()
    columns = {name: table.column(name).to_numpy() for name in COLUMNS}
    of = {tag: np.nonzero(columns["tag"] == tag)[0] for tag in range(USER + 1)}
    users = of[USER][np.argsort(columns["entity"][of[USER]])]
    ids = columns["entity"][users]
    groups, user, group = _members(columns, of[MEMBER], ids)
    # users of as many groups side by side: then what is done for one group after the other is done for all of them
    by_index = np.argsort(-np.bincount(user, minlength=len(ids)), kind="stable")
    index = np.argsort(by_index)
    by_user = np.argsort(index[user], kind="stable")
    blocks = {tag: {name: columns[name][rows] for name in COLUMNS[1:]} for tag, rows in of.items() if tag < MEMBER}
    blocks[TARGET], blocks[GRANT] = _told_by_grants(blocks[TARGET], blocks[GRANT])
    for tag in blocks.keys() - {TARGET}:
        blocks[tag] = _of_principals(blocks[tag], ids, index, groups)
    names = table.column("name").combine_chunks().take(pa.array(of[TARGET])) if "name" in table.column_names else None
    part = Part(blocks, names, len(groups), index[user][by_user], group[by_user], ids[by_index],
                columns["what"][users][by_index], np.zeros(1 << _marks(len(user)), bool))
    part.members_mark()
    return part


def _members(columns: dict[str, np.ndarray], rows: np.ndarray, user_ids: np.ndarray) -> tuple[np.ndarray, ...]:
    """(the numbers of groups that have members, and of each membership the places of user and group among them)."""
    user, is_active = _found(user_ids, columns["entity"][rows])
    groups, group = np.unique(columns["principal"][rows][is_active], return_inverse=True)
    return groups, user, group


def _of_principals(rows: dict[str, np.ndarray], user_ids: np.ndarray, user_index: np.ndarray,
                   groups: np.ndarray) -> dict[str, np.ndarray]:
    """With the indexes of principals, as Part has them; those that reach nobody are left out. user_index: of each user_id."""
    principal = rows["principal"]
    index = np.full(len(principal), _NOBODY)
    index[principal == EVERYBODY] = EVERYBODY
    at, is_there = _found(user_ids, principal)
    index[is_there] = user_index[at]
    at, is_there = _found(groups, principal)
    index[is_there] = EVERYBODY - 1 - at
    reached = index != _NOBODY
    return {name: column[reached] for name, column in {**rows, "principal": index}.items()}


def _told_by_grants(targets: dict[str, np.ndarray], grants: dict[str, np.ndarray]) -> tuple[dict, dict]:
    """The targets with those that only the grants tell of, and the grants with nothing but the privilege in `what`."""
    what = grants["what"]
    kind, rank = what >> PRIVILEGE_BITS & (1 << KIND_BITS) - 1, what >> PRIVILEGE_BITS + KIND_BITS
    rows = np.nonzero(kind)[0]
    rows = rows[np.unique(grants["entity"][rows], return_index=True)[1]]
    told = {**{name: column[rows] for name, column in grants.items()}, "what": kind[rows] - 1, "principal": rank[rows]}
    return ({name: np.concatenate([targets[name], told[name]]) for name in targets},
            {**grants, "what": what & (1 << PRIVILEGE_BITS) - 1})


class Layout:
    """Words of bits in runs, one for each kind and family, also where it has no word.

    run_kind, run_family: of each. run_word: its first word. run_last: the word behind its last. mask: the bits that stand for
    something. counts: of these, by run.
    """

    def __init__(self, run_kind: np.ndarray, run_family: np.ndarray, counts: np.ndarray):
        words = -(-counts // WORD_BITS)
        self.run_kind, self.run_family = run_kind, run_family
        self.run_last = np.cumsum(words)
        self.run_word = self.run_last - words
        self.words = int(self.run_last[-1])
        self.mask = np.full(self.words, ALL_BITS)
        is_there = words > 0
        over = (words * WORD_BITS - counts)[is_there].astype(np.uint64)
        self.mask[self.run_last[is_there] - 1] >>= over

    def span(self, kinds: frozenset[int]) -> tuple[int, int]:
        """The words in which all entities of these kinds lie; the same twice where there are none."""
        runs = np.nonzero(np.isin(self.run_kind, list(kinds)))[0]
        return (int(self.run_word[runs[0]]), int(self.run_last[runs[-1]])) if len(runs) else (0, 0)

    def positions(self, counts: np.ndarray) -> np.ndarray:
        """Of so many in each run, one run after the other."""
        return runs(self.run_word * WORD_BITS, counts)


class Unit(Layout):
    """Targets by position.

    entity, name_at: of each target, in the order of positions. position, run: likewise. run_rank: of the family of each run.
    """

    def __init__(self, targets: dict[str, np.ndarray], rows: np.ndarray):
        kind, family, entity = (targets[name][rows] for name in ("what", "family", "entity"))
        order = np.lexsort((entity, family, kind))
        self.name_at = rows[order]
        kind, family, self.entity = kind[order], family[order], entity[order]
        self.application = targets["application"][rows][order]
        starts = np.ones(len(order), bool)
        starts[1:] = (kind[1:] != kind[:-1]) | (family[1:] != family[:-1])
        begins = np.nonzero(starts)[0]
        counts = np.diff(np.append(begins, len(order)))
        super().__init__(kind[begins], family[begins], counts)
        self.run_rank = targets["principal"][rows][order][begins]
        self.run = np.cumsum(starts) - 1
        self.position = self.positions(counts)
        self._by_entity = np.argsort(self.entity)
        self._by_application = np.argsort(self.application, kind="stable")

    def run_of(self, position: np.ndarray) -> np.ndarray:
        return np.repeat(np.arange(len(self.run_kind)), self.run_last - self.run_word)[position // WORD_BITS]

    def thinned(self, is_kept: np.ndarray) -> tuple[Layout, np.ndarray]:
        """The layout with only the targets at some positions, and by position where it is there. is_kept: by position."""
        kept = is_kept[self.position]
        counts = np.bincount(self.run[kept], minlength=len(self.run_kind))
        layout, moved = Layout(self.run_kind, self.run_family, counts), np.full(self.words * WORD_BITS, NOTHING)
        moved[self.position[kept]] = layout.positions(counts)
        return layout, moved

    def places(self, entities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the positions of those that are targets here, which these are)."""
        at, is_here = _found(self.entity[self._by_entity], entities)
        return self.position[self._by_entity[at]], is_here

    def inside(self, applications: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(counts, positions): of the targets in each application, the application itself among them."""
        found = self.application[self._by_application]
        begins = np.searchsorted(found, applications)
        counts = np.searchsorted(found, applications, side="right") - begins
        return counts, self.position[self._by_application[runs(begins, counts)]]


def units_of(part: Part) -> Iterator[tuple[Unit, dict[int, dict[str, np.ndarray]]]]:
    """Each unit with the rows of the part that are about it, by what they say."""
    targets = part.blocks[TARGET]
    if not len(targets["entity"]):
        return
    most = int(max(rows["block"].max(initial=0) for rows in part.blocks.values())) + 1
    blocks, block_of, counts = np.unique(targets["family"] * most + targets["block"], return_inverse=True, return_counts=True)
    unit_of_block = _packed(counts)
    by_unit = {TARGET: _sliced(unit_of_block[block_of], int(unit_of_block[-1]) + 1)}
    for tag, rows in part.blocks.items():
        if tag != TARGET:
            block = rows["family"] * most + rows["block"]
            at = np.minimum(np.searchsorted(blocks, block), len(blocks) - 1)
            unit = np.where(blocks[at] == block, unit_of_block[at], NOTHING)
            by_unit[tag] = _sliced(unit, int(unit_of_block[-1]) + 1)
    for unit in range(int(unit_of_block[-1]) + 1):
        found = {tag: {name: column[by_unit[tag][unit]] for name, column in rows.items()}
                 for tag, rows in part.blocks.items() if tag != TARGET}
        yield Unit(targets, by_unit[TARGET][unit]), found


def _packed(counts: np.ndarray) -> np.ndarray:
    """The number of the unit that each block goes to, ascending."""
    numbers, number, filled = np.empty(len(counts), np.int64), 0, 0
    for block, count in enumerate(counts.tolist()):
        if filled and filled + count > UNIT_ENTITIES:
            number, filled = number + 1, 0
        numbers[block], filled = number, filled + count
    return numbers


def _sliced(number: np.ndarray, count: int) -> list[np.ndarray]:
    """The rows of each number from 0 on."""
    # numbers of few bits are sorted by their digits
    number = np.where(number == NOTHING, count, number).astype(np.min_scalar_type(count))
    order = np.argsort(number, kind="stable")
    bounds = np.searchsorted(number[order], np.arange(count + 1))
    return [order[begin:end] for begin, end in zip(bounds[:-1], bounds[1:], strict=True)]


@dataclass(frozen=True, slots=True)
class Entries:
    """Who holds one fact where in a unit. principal, position: of each entry. wide: the principals that hold it in all of a
    family, [(principals, family)]. kinds: as FactForm."""

    principal: np.ndarray
    position: np.ndarray
    wide: list[tuple[np.ndarray, int]]
    kinds: frozenset[int]

    def at(self, is_meant: np.ndarray, moved: np.ndarray) -> "Entries":
        """Those at some positions, in another layout. is_meant, moved: by position."""
        meant = is_meant[self.position]
        return Entries(self.principal[meant], moved[self.position[meant]], self.wide, self.kinds)


class Members:
    """What groups hold, as their members hold it. groups: some, by index; row_of: by group the row of a table that has one for
    each of them, and one more of a group that holds nothing."""

    def __init__(self, part: Part, groups: list[np.ndarray]):
        self.row_of = np.full(part.groups, NOTHING)
        for some in groups:
            self.row_of[some] = 0
        held = np.nonzero(self.row_of != NOTHING)[0]
        self.rows = len(held) + 1
        self.row_of[held] = np.arange(len(held))
        row = self.row_of[part.member_groups]
        is_held = row != NOTHING
        self.users, self._member_row = part.member_users[is_held], row[is_held]

    def joined(self, table: np.ndarray, join: np.ufunc, users: np.ndarray, row_of: np.ndarray) -> np.ndarray:
        """For each of these users the rows of the user's groups, joined; as FactRows.of. row_of: of each user from the first."""
        begin, end = np.searchsorted(self.users, [users[0], users[-1] + 1])
        nobody = self.rows - 1
        group_row = np.append(self._member_row[begin:end], nobody)
        counts = np.bincount(row_of[self.users[begin:end] - users[0]], minlength=len(users))
        begins = np.cumsum(counts) - counts
        # the first group of each user, then the second, ...: each step is one for all users
        rows = table.take(np.where(counts > 0, group_row[begins], nobody), axis=0)
        for place in range(1, int(counts.max(initial=0))):
            has_more = np.nonzero(counts > place)[0]
            last = int(has_more[-1]) + 1
            if 2 * len(has_more) > last:
                # most have: then it is quicker to go through all in order
                next_row = group_row[np.minimum(begins[:last] + place, len(group_row) - 1)]
                join(rows[:last], table.take(np.where(counts[:last] > place, next_row, nobody), axis=0), out=rows[:last])
            else:
                rows[has_more] = join(rows[has_more], table[group_row[begins[has_more] + place]])
        return rows


class FactRows:
    """Rows of bits of those who hold one fact in a layout: words from `first` on, `width` of them."""

    def __init__(self, part: Part, layout: Layout, entries: Entries):
        self._layout = layout
        self.first, last = layout.span(entries.kinds)
        self.width = last - self.first
        principal, position = entries.principal, entries.position - self.first * WORD_BITS
        of_everybody = position[principal == EVERYBODY]
        self.everybody = self._bits(1, np.zeros(len(of_everybody), np.int64), of_everybody)[0]
        rows = np.nonzero(principal >= 0)[0]
        # numbers of few bits are sorted by their digits
        rows = rows[np.argsort(principal[rows].astype(np.min_scalar_type(len(part.user_ids))), kind="stable")]
        self._own_user, self._own_position = principal[rows], position[rows]
        self._own_wide = [(np.sort(who[who >= 0]), family) for who, family in entries.wide]
        self._shared(part, principal, position, entries.wide)

    def _bits(self, count: int, row: np.ndarray, position: np.ndarray) -> np.ndarray:
        bits = np.zeros(count * self.width, np.uint64)
        np.bitwise_or.at(bits, row * self.width + position // WORD_BITS, np.uint64(1) << (position % WORD_BITS).astype(np.uint64))
        return bits.reshape(count, self.width)

    def _shared(self, part: Part, principal: np.ndarray, position: np.ndarray, wide: list[tuple[np.ndarray, int]]) -> None:
        of_group = principal < EVERYBODY
        groups, everywhere = groups_in(principal), [(groups_in(who), family) for who, family in wide]
        self._members = Members(part, [groups, *(some for some, _ in everywhere)])
        self._group_bits = self._bits(self._members.rows, self._members.row_of[groups], position[of_group])
        for some, family in everywhere:
            self._fill(self._group_bits, self._members.row_of[some], family)

    def _fill(self, bits: np.ndarray, rows: np.ndarray, family: int) -> None:
        layout = self._layout
        for run in np.nonzero(layout.run_family == family)[0]:
            begin, end = max(layout.run_word[run], self.first), min(layout.run_last[run], self.first + self.width)
            if begin < end and len(rows):
                bits[rows, begin - self.first : end - self.first] = ALL_BITS

    def mark_holders(self, is_holder: np.ndarray) -> None:
        """Mark all users who hold it anywhere here, by index."""
        for users in (self._own_user, self._members.users, *(who for who, _ in self._own_wide)):
            is_holder[users] = True

    def of(self, users: np.ndarray) -> np.ndarray:
        """The words of these users, by their ascending indexes, of whom no holder between the first and the last is left out."""
        row_of = rows_from(users)
        rows = self._members.joined(self._group_bits, np.bitwise_or, users, row_of)
        if self.everybody.any():
            rows |= self.everybody
        begin, end = np.searchsorted(self._own_user, [users[0], users[-1] + 1])
        row, position = row_of[self._own_user[begin:end] - users[0]], self._own_position[begin:end]
        np.bitwise_or.at(rows.reshape(-1), row * self.width + position // WORD_BITS,
                         np.uint64(1) << (position % WORD_BITS).astype(np.uint64))
        for who, family in self._own_wide:
            begin, end = np.searchsorted(who, [users[0], users[-1] + 1])
            self._fill(rows, row_of[who[begin:end] - users[0]], family)
        return rows


def rows_from(users: np.ndarray) -> np.ndarray:
    """By index from the first of these users on, the user's place among them."""
    row_of = np.zeros(int(users[-1] - users[0]) + 1, np.int64)
    row_of[users - users[0]] = np.arange(len(users))
    return row_of


def groups_in(principals: np.ndarray) -> np.ndarray:
    """The indexes of the groups among these principals."""
    return EVERYBODY - 1 - principals[principals < EVERYBODY]


def entries_of(unit: Unit, rows: dict[int, dict[str, np.ndarray]], number: int, fact: FactForm) -> Entries:
    """rows: as units_of. number: of the fact."""
    principal, position, wide = _entries(unit, rows, number, fact)
    is_asked = np.isin(unit.run_kind, list(fact.kinds))[unit.run_of(position)]
    return Entries(principal[is_asked], position[is_asked], wide, fact.kinds)


def _entries(unit: Unit, rows: dict[int, dict[str, np.ndarray]], number: int,
             fact: FactForm) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, int]]]:
    """(principals, positions), and of what is held in all of a family [(principals, family)]."""
    grants = _of_privileges(rows[GRANT], fact.privileges)
    match fact.form:
        case "self":
            position, is_here = unit.places(grants["entity"])
            return grants["principal"][is_here], position, []
        case "told":
            told = {name: column[rows[FACT]["what"] == number] for name, column in rows[FACT].items()}
            position, is_here = unit.places(told["entity"])
            return told["principal"][is_here], position, []
        case "application":
            is_on_it = (grants["entity"] == grants["application"]) & (grants["application"] != NOTHING)
            counts, position = unit.inside(grants["application"][is_on_it])
            return np.repeat(grants["principal"][is_on_it], counts), position, []
        case "below":
            around = _of_privileges(rows[ANYWHERE], fact.privileges)
            found = [(grants["principal"], grants["family"]), (around["principal"], around["family"]),
                     (grants["principal"], grants["application"])]
            here = [(principal, *unit.places(container)) for principal, container in found]
            return (np.concatenate([principal[is_here] for principal, _, is_here in here]),
                    np.concatenate([position for _, position, _ in here]), [])
        case "namespace":
            wide = _of_privileges(rows[NAMESPACE_WIDE], fact.privileges)
            is_on_it = grants["entity"] == grants["family"]
            return _NONE, _NONE, _by_family([wide, {name: column[is_on_it] for name, column in grants.items()}])
        case "anywhere":
            return _NONE, _NONE, _by_family([grants, _of_privileges(rows[ANYWHERE], fact.privileges)])
        case "instance":
            return _NONE, _NONE, _by_family([_of_privileges(rows[INSTANCE_WIDE], fact.privileges)])
    raise ValueError(f"`{fact.form}` is no form of a fact")


def _of_privileges(rows: dict[str, np.ndarray], privileges: int) -> dict[str, np.ndarray]:
    meant = (privileges >> rows["what"]) & 1 == 1
    return {name: column[meant] for name, column in rows.items()}


def _by_family(rows: list[dict[str, np.ndarray]]) -> list[tuple[np.ndarray, int]]:
    principal, family = (np.concatenate([part[name] for part in rows]) for name in ("principal", "family"))
    return [(np.unique(principal[family == one]), one) for one in np.unique(family).tolist()]


def _found(sorted_numbers: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the places of those that are among them, which these are)."""
    if not len(sorted_numbers):
        return _NONE, np.zeros(len(numbers), bool)
    first, last = int(sorted_numbers[0]), int(sorted_numbers[-1])
    if last - first < _SPARSE * len(sorted_numbers):
        # numbers that lie close are looked up in a table, which takes a fraction of a search
        place_of = np.full(last - first + 1, NOTHING)
        place_of[sorted_numbers - first] = np.arange(len(sorted_numbers))
        is_there = (numbers >= first) & (numbers <= last)
        at = place_of[np.where(is_there, numbers - first, 0)]
        is_there &= at != NOTHING
    else:
        at = np.minimum(np.searchsorted(sorted_numbers, numbers), len(sorted_numbers) - 1)
        is_there = sorted_numbers[at] == numbers
    return at[is_there], is_there


def runs(begins: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Of each run its numbers from `begins` on, one run after the other."""
    return np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
