"""Propose roles that people would define: what a team, or the holders of a permission, typically hold.

A few missing grants split a role in an exact cover with the fewest roles (`analytics.spark.role_cover`). Here, a role begins with a
seed: the members of a team, or all holders of one permission. What at least TYPICAL_SHARE of them hold is typical. The users of the
role are those who hold everything that is typical, and its permissions are those that all of these users hold. With a surplus, both
may lack this share. A greedy method chooses the roles: first those that replace the most grants, and teams before others. A
role that needs as many memberships and grants as it replaces is not proposed, so some grants remain.

No Django and no Spark, and everything is in memory: about 400 bytes for each assignment.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from analytics.spark.role_kernel import Role

# of the users of a seed, who hold what is typical
TYPICAL_SHARE = 0.8
# how many times a role of a team may replace fewer grants than another role and still be chosen first
TEAM_WEIGHT = 2
SEEDS_PER_CHUNK = 256


def enough(total: Any, surplus: float) -> Any:
    """Return how many of `total` must be held, if the share `surplus` may be missing. Products of floats may be a bit smaller.

    total: a number, or a Spark column of numbers.
    """
    return (1 - surplus) * total - 1e-9


def team_roles(
    permissions_by_user: Mapping[int, Collection[int]],
    teams: Iterable[Collection[int]] = (),
    *,
    surplus: float = 0.0,
) -> list[Role]:
    """Return roles of at least two users in the order in which they are chosen.

    teams: the members of each team; users without a permission count. surplus: the share of a role's users who may lack one of
    its permissions. The result is the same in every run.
    """
    table = _Table(permissions_by_user)
    candidates: dict[Role, int] = {}
    for members in _seeds_of_teams(table, teams):
        for typical, users in table.typical_of([members]):
            if role := table.role(typical, surplus, among=users):
                candidates[role] = TEAM_WEIGHT
    seen: set[bytes] = set()
    for typical, _ in table.typical_of(table.holders):
        if (key := typical.tobytes()) not in seen:
            seen.add(key)
            if role := table.role(typical, surplus):
                candidates.setdefault(role, 1)
    return [table.with_keys(role) for role in _best_roles(candidates, table)]


def _seeds_of_teams(table: "_Table", teams: Iterable[Collection[int]]) -> Iterator[np.ndarray]:
    for members in teams:
        # a member without any permission lacks everything that is typical
        if table.users_among(members).size >= TYPICAL_SHARE * len(members):
            yield table.users_among(members)


class _Table:
    """The assignments as rows of permissions and columns of users, both numbered from 0."""

    def __init__(self, permissions_by_user: Mapping[int, Collection[int]]):
        held = {user: permissions for user, permissions in sorted(permissions_by_user.items()) if permissions}
        self.users = np.array(list(held), dtype=np.int64)
        self.permissions, columns = np.unique(
            np.array([permission for row in held.values() for permission in sorted(row)], dtype=np.int64),
            return_inverse=True,
        )
        sizes = np.fromiter(map(len, held.values()), dtype=np.int64, count=len(held))
        starts = np.cumsum([0, *sizes])
        self.rows = [columns[start:end] for start, end in zip(starts, starts[1:], strict=False)]
        owners = np.repeat(np.arange(len(held)), sizes)
        order = np.argsort(columns, kind="stable")
        ends = np.cumsum(np.bincount(columns, minlength=len(self.permissions)))
        self.holders = np.split(owners[order], ends[:-1]) if len(ends) else []
        self.matrix = csr_array(
            (np.ones(len(columns), dtype=np.int32), columns, starts),
            shape=(len(held), len(self.permissions)),
        )

    def users_among(self, users: Collection[int]) -> np.ndarray:
        """Return the numbers of the users who hold anything."""
        return np.flatnonzero(np.isin(self.users, np.fromiter(users, dtype=np.int64, count=len(users))))

    def typical_of(self, seeds: list[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the typical permissions and the users of each seed with several users."""
        seeds = [users for users in seeds if len(users) > 1]
        for first in range(0, len(seeds), SEEDS_PER_CHUNK):
            chunk = seeds[first : first + SEEDS_PER_CHUNK]
            members = np.concatenate(chunk)
            starts = np.cumsum([0, *map(len, chunk)])
            shape = len(chunk), len(self.users)
            counts = (
                csr_array((np.ones(len(members), dtype=np.int32), members, starts), shape=shape) @ self.matrix
            )
            counts.sort_indices()
            for number, users in enumerate(chunk):
                row = slice(counts.indptr[number], counts.indptr[number + 1])
                typical = counts.indices[row][counts.data[row] >= enough(len(users), 1 - TYPICAL_SHARE)]
                if typical.size:
                    yield typical, users

    def role(self, typical: np.ndarray, surplus: float, among: np.ndarray | None = None) -> Role | None:
        """Return the role of the users who hold what is typical; None without several users and a permission."""
        held = np.bincount(np.concatenate([self.holders[permission] for permission in typical]))
        users = np.flatnonzero(held >= enough(len(typical), surplus))
        if among is not None:
            users = np.intersect1d(users, among)
        if len(users) < 2:
            return None
        holders = np.bincount(np.concatenate([self.rows[user] for user in users]))
        permissions = np.flatnonzero(holders >= enough(len(users), surplus))
        return Role(frozenset(users.tolist()), frozenset(permissions.tolist())) if permissions.size else None

    def with_keys(self, role: Role) -> Role:
        """Return a role with the keys of its users and permissions instead of their numbers."""
        return Role(
            frozenset(self.users[list(role.users)].tolist()),
            frozenset(self.permissions[list(role.permissions)].tolist()),
        )


def _best_roles(candidates: Mapping[Role, int], table: _Table) -> Iterator[Role]:
    """Yield the candidates that replace more grants, which no role before gives, than they need memberships and grants."""
    uncovered = [set(row.tolist()) for row in table.rows]

    def gain(role: Role) -> int:
        return sum(len(uncovered[user] & role.permissions) for user in role.users)

    # stale entries stay in the heap: the gain of their role is smaller now
    heap = [(-gain(role) * weight, number, role) for number, (role, weight) in enumerate(candidates.items())]
    heapq.heapify(heap)
    while heap:
        before, number, role = heapq.heappop(heap)
        covered = gain(role)
        if covered <= len(role.users) + len(role.permissions):
            continue
        if -covered * candidates[role] > before:
            heapq.heappush(heap, (-covered * candidates[role], number, role))
            continue
        yield role
        for user in role.users:
            uncovered[user] -= role.permissions
