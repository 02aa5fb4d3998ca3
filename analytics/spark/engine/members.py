"""Users, groups, memberships and namespaces: few enough for every Python worker to have all of them.

A `Directory` is collected once and broadcast, so none of it passes through an exchange. It takes about 100
bytes for each user, 16 for each membership and 50 for each namespace.

Arrays of the engine refer to users, groups and namespaces by small numbers:

- A rank is a position in the order of names. Users and namespaces have ranks.
- A user index numbers the users by descending number of groups. Users with the same number of groups are
  neighbours, so `GroupRowIndex.combine` can process the first group of all users, then the second, and so on.
- A group index numbers the groups by id.
- A principal number is a user index, EVERYONE, or a negative number for a group (see `group_principals`).
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
# The principal number of an inactive user, or of a group without active members.
_UNKNOWN = np.iinfo(np.int64).min
# `lookup` uses a table if it has at most this many slots for each number.
_MAX_SLOTS_PER_NUMBER = 64
# Multiplying by this odd number spreads the keys over all 64 bits.
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class DirectoryBroadcast(Protocol):
    """A Spark broadcast of `Directory.to_dict()`, or another object with the same `value`."""

    @property
    def value(self) -> dict[str, Any]: ...


class LazyValue:
    """A property that is computed once. functools.cached_property has a lock in Python 3.11, which cannot be
    pickled.
    """

    def __init__(self, function: Callable[[Any], Any]):
        self._function = function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self._function.__name__] = self._function(instance)
        return value


@dataclass(frozen=True, eq=False)
class Directory:
    """The users, groups, memberships and namespaces of a tenant.

    user_ids, user_ranks: by user index. user_names: by user rank.
    group_ids: by group index; only groups with active members.
    member_users, member_groups: the user index and the group index of each membership, sorted by user.
    namespace_ids, namespace_names: by namespace rank. Rank 0 stands for entities in no namespace; its id is
    NONE.
    required: by namespace rank, how many entities of the namespace are required (see HolderCounts in
        `entry`); all 0 for other outputs.
    is_restricted: targets outside of the namespaces listed here are not evaluated.
    instance_principals, instance_privileges: the principal number and the privilege number of each grant on
        the instance. There is at most one for each principal and privilege.
    """

    user_ids: Array
    user_ranks: Array
    user_names: pa.Array
    group_ids: Array
    member_users: Array
    member_groups: Array
    namespace_ids: Array
    namespace_names: pa.Array
    required: Array
    is_restricted: bool = False
    instance_principals: Array = field(default_factory=lambda: np.empty(0, np.int64))
    instance_privileges: Array = field(default_factory=lambda: np.empty(0, np.int64))

    @staticmethod
    def build(
        users: pa.Table, memberships: pa.Table, namespaces: pa.Table, *, is_restricted: bool = False
    ) -> "Directory":
        """Return the directory of these tables.

        users: id and name of the active users. memberships: user_id and group_id, also of inactive users.
        namespaces: id, name and required.
        """
        users, namespaces = users.sort_by("name"), namespaces.sort_by("name")
        id_by_rank = users["id"].to_numpy()
        rank_by_id = np.argsort(id_by_rank)
        id_positions, is_active = lookup(id_by_rank[rank_by_id], memberships["user_id"].to_numpy())
        group_ids, groups = np.unique(memberships["group_id"].to_numpy()[is_active], return_inverse=True)
        member_ranks = rank_by_id[id_positions]
        rank_by_index = np.argsort(-np.bincount(member_ranks, minlength=len(id_by_rank)), kind="stable")
        index_by_rank = np.argsort(rank_by_index)
        member_users = index_by_rank[member_ranks]
        by_user = np.argsort(member_users, kind="stable")
        return Directory(
            id_by_rank[rank_by_index],
            rank_by_index,
            _text(users["name"]),
            group_ids,
            member_users[by_user],
            groups[by_user],
            np.append(NONE, namespaces["id"].to_numpy()),
            pa.concat_arrays([pa.array([""], pa.string()), _text(namespaces["name"])]),
            np.append(0, namespaces["required"].to_numpy()),
            is_restricted,
        )

    def with_instance_grants(
        self, principal_types: Array, principal_ids: Array, privileges: Array
    ) -> "Directory":
        """Return the directory with these grants on the instance.

        Grants to principals without an active user are skipped.
        """
        principals, is_active = self.principal_numbers(principal_types, principal_ids)
        return replace(self, instance_principals=principals, instance_privileges=privileges[is_active])

    @staticmethod
    def load(broadcast: DirectoryBroadcast) -> "Directory":
        return Directory(**broadcast.value)  # type: ignore[arg-type]

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
    def _sorted_user_ids(self) -> tuple[Array, Array]:
        """Return (user ids, ascending; the user index of each)."""
        order = np.argsort(self.user_ids)
        return self.user_ids[order], order

    def group_row_index(self, groups: list[Array]) -> "GroupRowIndex":
        """Return a row for each of these groups. groups: arrays of group indexes."""
        return GroupRowIndex(self.group_count, self.member_users, self.member_groups, groups)

    def principal_numbers(self, principal_types: Array, principal_ids: Array) -> tuple[Array, Array]:
        """Return (principal numbers, mask).

        The mask is false for inactive users and for groups without active members.
        """
        numbers = np.full(len(principal_ids), _UNKNOWN)
        numbers[principal_types == EVERYONE_TYPE] = EVERYONE
        user_ids, user_indexes = self._sorted_user_ids
        rows = np.nonzero(principal_types == USER)[0]
        positions, is_known = lookup(user_ids, principal_ids[rows])
        numbers[rows[is_known]] = user_indexes[positions]
        rows = np.nonzero(principal_types == GROUP)[0]
        groups, is_known = lookup(self.group_ids, principal_ids[rows])
        numbers[rows[is_known]] = group_principals(groups)
        is_active = numbers != _UNKNOWN
        return numbers[is_active], is_active

    def namespace_ranks(self, namespace_ids: Array) -> Array:
        """Return the rank of each namespace; NONE if the directory does not list it."""
        order = np.argsort(self.namespace_ids)
        positions, is_known = lookup(self.namespace_ids[order], namespace_ids)
        ranks = np.full(len(namespace_ids), NONE)
        ranks[is_known] = order[positions]
        return ranks

    def are_members(self, users: Array, groups: Array) -> Array:
        """Return whether each user is a member of the group at the same position. users, groups: indexes."""
        # The hash table rejects most pairs in a fraction of the time of a search.
        is_member = self._hash_table[self._hash(users, groups)]
        rows = np.nonzero(is_member)[0]
        _, is_confirmed = lookup(self._membership_keys, users[rows] * self.group_count + groups[rows])
        is_member[rows] = is_confirmed
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
        products = (users * self.group_count + groups).astype(np.uint64) * _HASH_MULTIPLIER
        return (products >> np.uint64(64 - self._hash_bits)).astype(np.int64)

    @LazyValue
    def members_by_group(self) -> tuple[Array, Array]:
        """Return (users, bounds): user indexes, sorted by group.

        The members of group g are users[bounds[g]:bounds[g + 1]].
        """
        order = np.argsort(self.member_groups, kind="stable")
        return self.member_users[order], np.searchsorted(
            self.member_groups[order], np.arange(self.group_count + 1)
        )


def group_principals(groups: Array) -> Array:
    """Return the principal numbers of group indexes."""
    return EVERYONE - 1 - groups


def group_indexes(principals: Array) -> Array:
    """Return the group indexes of the groups among these principal numbers.

    Users and EVERYONE are skipped.
    """
    return EVERYONE - 1 - principals[principals < EVERYONE]


class GroupRowIndex:
    """Assign each of some groups a row of a table, and combine the rows of a user's groups into a row for the
    user.

    row_by_group: the row of each group, by group index; NONE for groups without a row.
    row_count: the number of rows of a table. Its last row must be empty: it is used for users who are in none
    of the groups.
    users: the user index of each membership in one of the groups.
    """

    def __init__(self, group_count: int, member_users: Array, member_groups: Array, groups: list[Array]):
        """member_users, member_groups: the user and the group of every membership, sorted by user."""
        self.row_by_group = np.full(group_count, NONE)
        for indexes in groups:
            self.row_by_group[indexes] = 0
        included = np.nonzero(self.row_by_group != NONE)[0]
        self.row_count = len(included) + 1
        self.row_by_group[included] = np.arange(len(included))
        rows = self.row_by_group[member_groups]
        is_included = rows != NONE
        self.users, self._member_rows = member_users[is_included], rows[is_included]

    def combine(self, table: Array, operation: np.ufunc, users: Array) -> Array:
        """Return a row for each of these users: the rows of the user's groups, combined by the operation.

        users: ascending, and with every member between the first and the last of them.
        """
        begin, end = np.searchsorted(self.users, [users[0], users[-1] + 1])
        empty_row = self.row_count - 1
        # the row of each membership, followed by the empty row
        member_rows = np.append(self._member_rows[begin:end], empty_row)
        group_counts = np.bincount(
            row_by_offset(users)[self.users[begin:end] - users[0]], minlength=len(users)
        )
        begins = np.cumsum(group_counts) - group_counts
        # The first group of each user, then the second, and so on: each step handles all users at once.
        rows = table.take(np.where(group_counts > 0, member_rows[begins], empty_row), axis=0)
        for step in range(1, int(group_counts.max(initial=0))):
            has_more = np.nonzero(group_counts > step)[0]
            last = int(has_more[-1]) + 1
            if 2 * len(has_more) > last:
                # Most users have another group: processing all of them in order is faster than selecting
                # some.
                next_rows = member_rows[np.minimum(begins[:last] + step, len(member_rows) - 1)]
                next_rows = np.where(group_counts[:last] > step, next_rows, empty_row)
                operation(rows[:last], table.take(next_rows, axis=0), out=rows[:last])
            else:
                rows[has_more] = operation(rows[has_more], table[member_rows[begins[has_more] + step]])
        return rows


def row_by_offset(users: Array) -> Array:
    """Return the row of each user in a table with one row for each of `users`, by `user index - users[0]`.

    users: ascending user indexes.
    """
    rows = np.zeros(int(users[-1] - users[0]) + 1, np.int64)
    rows[users - users[0]] = np.arange(len(users))
    return rows


def lookup(sorted_numbers: Array, numbers: Array) -> tuple[Array, Array]:
    """Look up numbers.

    Return (positions, mask). mask: which `numbers` are in `sorted_numbers`. positions: where these are.
    """
    if not len(sorted_numbers):
        return np.empty(0, np.int64), np.zeros(len(numbers), bool)
    first, last = int(sorted_numbers[0]), int(sorted_numbers[-1])
    if last - first < _MAX_SLOTS_PER_NUMBER * len(sorted_numbers):
        # A table is many times faster than a search if the numbers are dense.
        table = np.full(last - first + 1, NONE)
        table[sorted_numbers - first] = np.arange(len(sorted_numbers))
        is_known = (numbers >= first) & (numbers <= last)
        positions = table[np.where(is_known, numbers - first, 0)]
        is_known &= positions != NONE
    else:
        positions = np.minimum(np.searchsorted(sorted_numbers, numbers), len(sorted_numbers) - 1)
        is_known = sorted_numbers[positions] == numbers
    return positions[is_known], is_known


def _text(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks().cast(pa.string())
