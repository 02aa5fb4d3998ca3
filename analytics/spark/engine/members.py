"""Users, groups, memberships and namespaces: small enough for every Python worker to have all of them.

A `Directory` is collected once and broadcast, so none of it passes through an exchange. It takes about 100 bytes for each user,
16 for each membership and 50 for each namespace.

In the arrays of the engine a principal is one number: the index of a user, EVERYONE, or below it the index of a group (see
`group_principals`). Users with the same number of groups have neighbouring indexes, which lets `GroupRows.combine` process
the first group of all users, then the second, and so on.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from analytics.spark.engine.rows import EVERYONE as EVERYONE_TYPE
from analytics.spark.engine.rows import GROUP, NONE, USER, Array

cloudpickle.register_pickle_by_value(sys.modules[__name__])

EVERYONE = -1
# The principal of a user or group that reaches no active user.
_UNKNOWN = np.iinfo(np.int64).min
# `lookup` uses a table of at most this many places for each number.
_SPARSE = 64
# An odd number whose products spread over all 64 bits.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Shared(Protocol):
    """A Spark broadcast, or anything else with its `value`."""

    @property
    def value(self) -> dict[str, Any]: ...


class LazyValue:
    """A property that is computed once. functools.cached_property has a lock in Python 3.11, which cannot be pickled."""

    def __init__(self, function: Callable[[Any], Any]):
        self._function = function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self._function.__name__] = self._function(instance)
        return value


@dataclass(frozen=True, eq=False)
class Directory:
    """The users and namespaces of a tenant.

    user_ids: by user index. user_places: the position of each user in the order of names, by user index. user_names: by place.
    group_ids: ascending, of the groups with active members; the position is the group index.
    member_users, member_groups: the indexes of each membership, by user.
    namespace_ids, namespace_names: by rank, the position in the order of names. Rank 0 stands for entities in no namespace;
    `namespace_ids` is NONE there. is_selection: targets in other namespaces are left out.
    instance_principals, instance_privileges: of each grant on the instance, the principal number and the privilege number. There
    is at most one for each principal and privilege.
    required: by rank, how many entities of the namespace are required (see HolderCounts in `entry`); all 0 for other outputs.
    """

    user_ids: Array
    user_places: Array
    user_names: pa.Array
    group_ids: Array
    member_users: Array
    member_groups: Array
    namespace_ids: Array
    namespace_names: pa.Array
    required: Array
    is_selection: bool = False
    instance_principals: Array = field(default_factory=lambda: np.empty(0, np.int64))
    instance_privileges: Array = field(default_factory=lambda: np.empty(0, np.int64))

    @staticmethod
    def build(users: pa.Table, memberships: pa.Table, namespaces: pa.Table, *, is_selection: bool = False) -> "Directory":
        """users: id and name. memberships: user_id and group_id, also of inactive users. namespaces: id, name and required."""
        users, namespaces = users.sort_by("name"), namespaces.sort_by("name")
        ids = users["id"].to_numpy()
        by_id = np.argsort(ids)
        found, is_user = lookup(ids[by_id], memberships["user_id"].to_numpy())
        group_ids, group = np.unique(memberships["group_id"].to_numpy()[is_user], return_inverse=True)
        place = by_id[found]
        by_index = np.argsort(-np.bincount(place, minlength=len(ids)), kind="stable")
        index = np.argsort(by_index)
        by_user = np.argsort(index[place], kind="stable")
        return Directory(
            ids[by_index], by_index, _text(users["name"]), group_ids, index[place][by_user], group[by_user],
            np.append(NONE, namespaces["id"].to_numpy()),
            pa.concat_arrays([pa.array([""], pa.string()), _text(namespaces["name"])]),
            np.append(0, namespaces["required"].to_numpy()), is_selection)

    def with_instance_grants(self, principal_type: Array, principal: Array, privilege: Array) -> "Directory":
        """Return the directory with the grants on the instance. Grants that reach no active user are skipped."""
        numbers, is_reached = self.principals(principal_type, principal)
        return replace(self, instance_principals=numbers, instance_privileges=privilege[is_reached])

    @staticmethod
    def load(shared: Shared) -> "Directory":
        return Directory(**shared.value)  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, object]:
        """Return the directory as plain arrays, which a worker can read without this package."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def user_count(self) -> int:
        return len(self.user_ids)

    @property
    def group_count(self) -> int:
        return len(self.group_ids)

    @LazyValue
    def _index_by_id(self) -> tuple[Array, Array]:
        order = np.argsort(self.user_ids)
        return self.user_ids[order], order

    def group_rows(self, groups: list[Array]) -> "GroupRows":
        """Return a table of these groups, for users by index."""
        return GroupRows(self.group_count, self.member_users, self.member_groups, groups)

    def principals(self, principal_type: Array, principal: Array) -> tuple[Array, Array]:
        """Return (principal numbers, mask). The mask is false for groups without active members and for inactive users."""
        number = np.full(len(principal), _UNKNOWN)
        number[principal_type == EVERYONE_TYPE] = EVERYONE
        ids, index = self._index_by_id
        rows = np.nonzero(principal_type == USER)[0]
        found, is_known = lookup(ids, principal[rows])
        number[rows[is_known]] = index[found]
        rows = np.nonzero(principal_type == GROUP)[0]
        found, is_known = lookup(self.group_ids, principal[rows])
        number[rows[is_known]] = group_principals(found)
        is_reached = number != _UNKNOWN
        return number[is_reached], is_reached

    def ranks(self, families: Array) -> Array:
        """Return the rank of each namespace, by id; NONE if the directory does not list it."""
        order = np.argsort(self.namespace_ids)
        found, is_known = lookup(self.namespace_ids[order], families)
        ranks = np.full(len(families), NONE)
        ranks[is_known] = order[found]
        return ranks

    def are_members(self, users: Array, groups: Array) -> Array:
        """Return whether each user is a member of the group at the same position. Both arrays contain indexes."""
        # The hash table answers most questions in a fraction of the time of a search.
        is_member = self._hash_table[self._hash(users, groups)]
        rows = np.nonzero(is_member)[0]
        _, is_found = lookup(self._membership_keys, users[rows] * self.group_count + groups[rows])
        is_member[rows] = is_found
        return is_member

    @LazyValue
    def _membership_keys(self) -> Array:
        return np.sort(self.member_users * self.group_count + self.member_groups)

    @LazyValue
    def _hash_table(self) -> Array:
        table = np.zeros(1 << self._hash_bits, bool)
        table[self._hash(self.member_users, self.member_groups)] = True
        return table

    @property
    def _hash_bits(self) -> int:
        return (32 * len(self.member_users) + 1).bit_length()

    def _hash(self, users: Array, groups: Array) -> Array:
        spread = (users * self.group_count + groups).astype(np.uint64) * _SPREAD
        return (spread >> np.uint64(64 - self._hash_bits)).astype(np.int64)

    @LazyValue
    def members_by_group(self) -> tuple[Array, Array]:
        """Return (users, bounds): user indexes by group. The members of group g are users[bounds[g]:bounds[g + 1]]."""
        order = np.argsort(self.member_groups, kind="stable")
        return self.member_users[order], np.searchsorted(self.member_groups[order], np.arange(self.group_count + 1))


def group_principals(groups: Array) -> Array:
    """Return the principal numbers of group indexes."""
    return EVERYONE - 1 - groups


def groups_of(principals: Array) -> Array:
    """Return the group indexes of the groups among these principals."""
    return EVERYONE - 1 - principals[principals < EVERYONE]


class GroupRows:
    """A table with one row for each of some groups, combined into rows for their members.

    row_of: by group index the row of the group in such a table, NONE for other groups. rows: how many rows the table has; the
    last one must be empty, and stands for users without such a group. users: by membership in one of the groups.
    """

    def __init__(self, group_count: int, users: Array, users_groups: Array, groups: list[Array]):
        """users, users_groups: the user and the group of every membership, by ascending user."""
        self.row_of = np.full(group_count, NONE)
        for some in groups:
            self.row_of[some] = 0
        included = np.nonzero(self.row_of != NONE)[0]
        self.rows = len(included) + 1
        self.row_of[included] = np.arange(len(included))
        row = self.row_of[users_groups]
        is_included = row != NONE
        self.users, self._member_row = users[is_included], row[is_included]

    def combine(self, table: Array, operation: np.ufunc, users: Array) -> Array:
        """Return for each of these users (ascending) the rows of the user's groups, combined by the operation.

        The users must include every member between the first and the last of them.
        """
        begin, end = np.searchsorted(self.users, [users[0], users[-1] + 1])
        empty = self.rows - 1
        group_row = np.append(self._member_row[begin:end], empty)
        counts = np.bincount(row_numbers(users)[self.users[begin:end] - users[0]], minlength=len(users))
        begins = np.cumsum(counts) - counts
        # The first group of each user, then the second, and so on: each step handles all users at once.
        rows = table.take(np.where(counts > 0, group_row[begins], empty), axis=0)
        for place in range(1, int(counts.max(initial=0))):
            has_more = np.nonzero(counts > place)[0]
            last = int(has_more[-1]) + 1
            if 2 * len(has_more) > last:
                # Most users have one: going through all of them in order is faster than selecting.
                next_row = group_row[np.minimum(begins[:last] + place, len(group_row) - 1)]
                operation(rows[:last], table.take(np.where(counts[:last] > place, next_row, empty), axis=0), out=rows[:last])
            else:
                rows[has_more] = operation(rows[has_more], table[group_row[begins[has_more] + place]])
        return rows


def row_numbers(users: Array) -> Array:
    """Return the row of each user in a table that starts with the first user. users: ascending indexes."""
    numbers = np.zeros(int(users[-1] - users[0]) + 1, np.int64)
    numbers[users - users[0]] = np.arange(len(users))
    return numbers


def lookup(sorted_numbers: Array, numbers: Array) -> tuple[Array, Array]:
    """Return (positions, mask). The mask is true for numbers that are in the sorted array; positions: their positions there."""
    if not len(sorted_numbers):
        return np.empty(0, np.int64), np.zeros(len(numbers), bool)
    first, last = int(sorted_numbers[0]), int(sorted_numbers[-1])
    if last - first < _SPARSE * len(sorted_numbers):
        # A table is many times faster than a search where the numbers are dense.
        position_of = np.full(last - first + 1, NONE)
        position_of[sorted_numbers - first] = np.arange(len(sorted_numbers))
        is_found = (numbers >= first) & (numbers <= last)
        at = position_of[np.where(is_found, numbers - first, 0)]
        is_found &= at != NONE
    else:
        at = np.minimum(np.searchsorted(sorted_numbers, numbers), len(sorted_numbers) - 1)
        is_found = sorted_numbers[at] == numbers
    return at[is_found], is_found


def _text(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks().cast(pa.string())
