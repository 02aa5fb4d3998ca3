"""Users, groups, memberships and namespaces: few enough for every Python worker to have all of them.

A `Directory` is collected once and broadcast, so none of it passes through an exchange. It takes about 100
bytes for each user, 16 for each membership and 50 for each namespace.

Arrays of the engine refer to users, groups and namespaces by small numbers:

- A rank is a position in the order of names. Users and namespaces have ranks.
- A user index numbers the users by descending number of groups, so that the users with a second group are
  neighbours, and so on (`GroupRows.combine`).
- A group index numbers the groups by id. The first group, EVERYONE, contains every user.
- A principal number is a user index, or the number of users plus a group index.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from analytics.spark.engine.rows import EVERYONE, GROUP, NONE, USER, Array
from entities.frozen import frozen


class DirectoryBroadcast(Protocol):
    """A Spark broadcast of `Directory.to_dict()`, or another object with the same `value`."""

    @property
    def value(self) -> dict[str, Any]: ...


@frozen
class LocalBroadcast:
    """A DirectoryBroadcast with a value that is already in this process."""

    value: dict[str, Any]


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
    instance_principals: Array = field(default_factory=lambda: np.empty(0, np.int64))
    instance_privileges: Array = field(default_factory=lambda: np.empty(0, np.int64))

    @staticmethod
    def build(users: pa.Table, memberships: pa.Table, namespaces: pa.Table) -> "Directory":
        """Return the directory of these tables.

        users: id and name of the active users. memberships: user_id and group_id, also of inactive users.
        namespaces: id, name and required.
        """
        users, namespaces = users.sort_by("name"), namespaces.sort_by("name")
        id_by_rank = users["id"].to_numpy()
        member_ranks = find_in(id_by_rank, memberships["user_id"].to_numpy())
        is_active = member_ranks != NONE
        # every user is a member of EVERYONE
        member_ranks = np.append(member_ranks[is_active], np.arange(len(id_by_rank)))
        group_ids, groups = np.unique(
            np.append(
                memberships["group_id"].to_numpy()[is_active], np.full(len(id_by_rank), EVERYONE, np.int64)
            ),
            return_inverse=True,
        )
        rank_by_index = np.argsort(-np.bincount(member_ranks, minlength=len(id_by_rank)), kind="stable")
        member_users = np.argsort(rank_by_index)[member_ranks]
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
        )

    def with_instance_grants(
        self, principal_types: Array, principal_ids: Array, privileges: Array
    ) -> "Directory":
        """Return the directory with these grants on the instance.

        Grants to principals without an active user are skipped.
        """
        principals = self.principal_numbers(principal_types, principal_ids)
        is_active = principals != NONE
        return replace(
            self, instance_principals=principals[is_active], instance_privileges=privileges[is_active]
        )

    @staticmethod
    def load(broadcast: DirectoryBroadcast) -> "Directory":
        return Directory(**broadcast.value)

    def to_dict(self) -> dict[str, Any]:
        """Return the directory as plain arrays, which a worker can read without this package."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def user_count(self) -> int:
        return len(self.user_ids)

    @property
    def group_count(self) -> int:
        return len(self.group_ids)

    def principal_numbers(self, principal_types: Array, principal_ids: Array) -> Array:
        """Return the number of each principal; NONE for inactive users and for groups without active
        members.
        """
        users = find_in(self.user_ids, principal_ids)
        groups = find_in(self.group_ids, principal_ids)
        groups[groups != NONE] += self.user_count
        return np.where(principal_types == USER, users, np.where(principal_types == GROUP, groups, NONE))

    def namespace_ranks(self, namespace_ids: Array) -> Array:
        """Return the rank of each namespace; NONE if the directory does not list it."""
        return find_in(self.namespace_ids, namespace_ids)


class GroupRows:
    """Assign each of some groups a row of a table, and combine the rows of a user's groups into a row for the user.

    row_by_group: by group index, the row of the group, or NONE.
    row_count: the number of rows of a table.
    users: the user index of each membership in one of the groups.
    """

    def __init__(self, directory: Directory, groups: Array):
        """groups: group indexes, in any order and number."""
        used = np.unique(groups)
        self.row_count = len(used)
        self.row_by_group = np.full(directory.group_count, NONE)
        self.row_by_group[used] = np.arange(len(used))
        rows = self.row_by_group[directory.member_groups]
        is_included = rows != NONE
        self.users, self._member_rows = directory.member_users[is_included], rows[is_included]

    def combine(self, table: Array, users: Array, combination: np.ufunc) -> Array:
        """Return a row for each of these users: the rows of the user's groups, combined.

        users: ascending, and with every member between the first and the last of them.
        """
        begins = np.searchsorted(self.users, users)
        counts = np.searchsorted(self.users, users, side="right") - begins
        # The users with the most groups first, so that those who have a further group are always the first rows.
        by_count = np.argsort(-counts)
        begins, counts = begins[by_count], counts[by_count]
        rows = np.zeros((len(users), table.shape[1]), table.dtype)
        # The first group of each user, then the second, and so on: each step handles all users at once.
        for step in range(int(counts.max(initial=0))):
            with_more = np.count_nonzero(counts > step)
            further = table[self._member_rows[begins[:with_more] + step]]
            combination(rows[:with_more], further, out=rows[:with_more])
        by_user = np.empty_like(rows)
        by_user[by_count] = rows
        return by_user


def find_in(known_numbers: Array, numbers: Array) -> Array:
    """Return the index of each number in `known_numbers`; NONE if it is not there."""
    if not len(known_numbers):
        return np.full(len(numbers), NONE)
    order = np.argsort(known_numbers)
    ascending = known_numbers[order]
    positions = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
    return np.where(ascending[positions] == numbers, order[positions], NONE)


def _text(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks().cast(pa.string())
