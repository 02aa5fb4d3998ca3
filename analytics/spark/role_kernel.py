"""Reduce the search for the fewest roles to a few of the assignments of permissions to users, the kernel.

Assignments fit in one role if, for each two of them, both users have both permissions. An assignment is left out if it fits in every
role that covers another one. So the kernel needs as many roles as all assignments do. Often no two of its assignments fit in one role, and
their number is the minimum (Ene, Horne, Milosavljevic, Rao, Schreiber and Tarjan, "Fast exact and heuristic methods for role minimization
problems", SACMAT 2008).

No Django and no Spark.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, reduce
from itertools import islice
from operator import or_

from entities.frozen import frozen

# Up to this number, assignments are compared with each other. The memory for this grows with the square of the number: up to 50 MB for
# each of five tables.
MAX_COMPARED = 20_000
# All maximal roles are listed if at most MAX_LISTED assignments can share a role, and if there are fewer than MAX_ROLES such roles.
MAX_LISTED, MAX_ROLES = 2_000, 4_000

# the permissions of each user, or the users of each permission
Sets = dict[int, set[int]]
# a user and a permission
Assignment = tuple[int, int]


@frozen
class Role:
    """All of these users have all of these permissions."""

    users: frozenset[int]
    permissions: frozenset[int]

    @property
    def assignments(self) -> int:
        """The number of assignments that the role covers."""
        return len(self.users) * len(self.permissions)


class Kernel:
    """The assignments that remain.

    wanted: those that fit in a role with another one, as permissions by user. Each of the rest needs its own role.
    """

    def __init__(self, users: Sets, permissions: Sets):
        """users, permissions: each is the inverse of the other, and has no two equal sets."""
        self._users, self._permissions = users, permissions
        self._assignments = _undominated_assignments(users, permissions)
        is_compared = len(self._assignments) <= MAX_COMPARED
        self._neighbours = self._compare() if is_compared else []
        self._left_out = _leave_out(self._neighbours)
        remaining = [number for number in range(len(self._assignments)) if number not in self._left_out]
        bits = _union(1 << number for number in remaining) if is_compared else 0
        self._alone = [
            number for number in remaining if is_compared and self._neighbours[number] & bits == 1 << number
        ]
        self._others = sorted(set(remaining).difference(self._alone))
        self.wanted: Sets = defaultdict(set)
        for user, permission in map(self._assignments.__getitem__, self._others):
            self.wanted[user].add(permission)

    def maximal_roles(self) -> list[Role] | None:
        """Return the roles that cover as many of the wanted assignments as possible: no further one fits in. None if there are too
        many.
        """
        if not self._neighbours or len(self._others) > MAX_LISTED:
            return None
        cliques = list(islice(_maximal_cliques(self._neighbours, self._others), MAX_ROLES))
        if len(cliques) == MAX_ROLES:
            return None
        pairs = ([self._assignments[number] for number in clique] for clique in cliques)
        return [Role(*map(frozenset, zip(*pair, strict=True))) for pair in pairs]

    def cover(self, roles: list[Role]) -> list[Role]:
        """Return maximal roles that cover all assignments: one for each of these roles, which cover the wanted assignments, and one for
        each assignment that needs its own role.
        """
        role_of = {number: role for role, number in enumerate(self._alone)}
        number_of = {self._assignments[number]: number for number in self._others}
        for position, role in enumerate(roles, start=len(self._alone)):
            for user in role.users & self.wanted.keys():
                for permission in role.permissions & self.wanted[user]:
                    role_of.setdefault(number_of[user, permission], position)
        for number in reversed(self._left_out):
            role_of[number] = role_of[self._left_out[number]]
        cliques: list[list[int]] = [[] for _ in range(len(self._alone) + len(roles))]
        for number, position in role_of.items():
            cliques[position].append(number)
        return list(dict.fromkeys(self._maximal_role(clique) for clique in cliques if clique))

    def _maximal_role(self, numbers: Iterable[int]) -> Role:
        """Return a role that covers these assignments, and as many others as possible."""
        holders = common_members(self._permissions, {self._assignments[number][1] for number in numbers})
        return Role(frozenset(holders), frozenset(common_members(self._users, holders)))

    def _compare(self) -> list[int]:
        """Return for each assignment those that fit in one role with it, itself among them, as the bits of a number."""
        of_user: dict[int, int] = defaultdict(int)
        of_permission: dict[int, int] = defaultdict(int)
        for number, (user, permission) in enumerate(self._assignments):
            of_user[user] |= 1 << number
            of_permission[permission] |= 1 << number
        of_holders = {
            permission: _union(of_user[user] for user in self._permissions[permission] & of_user.keys())
            for permission in of_permission
        }
        of_held = {
            user: _union(of_permission[held] for held in self._users[user] & of_permission.keys())
            for user in of_user
        }
        return [of_holders[permission] & of_held[user] for user, permission in self._assignments]


def inverse_sets(sets: Mapping[int, Iterable[int]]) -> Sets:
    inverse: Sets = defaultdict(set)
    for vertex, members in sets.items():
        for member in members:
            inverse[member].add(vertex)
    return dict(inverse)


def common_members(sets: Sets, vertices: Iterable[int]) -> set[int]:
    """Return the members that the sets of all these vertices have in common."""
    by_size = sorted((sets[vertex] for vertex in vertices), key=len)
    return by_size[0].intersection(*by_size[1:])


def _undominated_assignments(users: Sets, permissions: Sets) -> list[Assignment]:
    """Return the assignments that no other one dominates.

    Every maximal role that covers an assignment also covers those that it dominates: of all users with at least the permissions of
    its user, to all permissions with at least the users of its permission.
    """

    @cache
    def broader(permission: int) -> set[int]:
        return common_members(users, permissions[permission])

    dominated: Sets = defaultdict(set)
    assignments = []
    # a dominating assignment comes first: its user has fewer permissions, or the same user's permission has fewer users
    for user in sorted(users, key=lambda user: (len(users[user]), user)):
        rest = users[user] - dominated.pop(user, set())
        covered: set[int] = set()
        for permission in sorted(rest, key=lambda held: (len(permissions[held]), held)):
            if permission not in covered:
                assignments.append((user, permission))
                covered |= broader(permission)
        if covered:
            for other in common_members(permissions, users[user]) - {user}:
                dominated[other] |= covered
    return assignments


def _leave_out(neighbours: list[int]) -> dict[int, int]:
    """Return the vertices of a graph that can be left out, in the order of removal, each with the vertex that stands for it.

    All remaining neighbours of the latter are neighbours of the former too, so each clique with the latter can include the former.
    neighbours: of each vertex and itself, as bits.
    """
    remaining = (1 << len(neighbours)) - 1
    left_out: dict[int, int] = {}
    waiting = deque(sorted(range(len(neighbours)), key=lambda vertex: neighbours[vertex].bit_count()))
    is_waiting = [True] * len(neighbours)
    while waiting:
        vertex = waiting.popleft()
        is_waiting[vertex] = False
        if vertex in left_out:
            continue
        itself = 1 << vertex
        common = near = neighbours[vertex] & remaining
        for neighbour in _positions(near):
            common &= neighbours[neighbour]
            if common == itself:
                break
        common ^= itself
        remaining &= ~common
        left_out |= dict.fromkeys(_positions(common), vertex)
        # only these have fewer neighbours now
        for other in _positions(_union(neighbours[other] for other in _positions(common)) & remaining):
            if not is_waiting[other]:
                is_waiting[other] = True
                waiting.append(other)
    return left_out


def _maximal_cliques(neighbours: list[int], vertices: Iterable[int]) -> Iterator[list[int]]:
    """Yield the maximal cliques of these vertices (the algorithm of Bron and Kerbosch, 1973, with a pivot)."""
    waiting = [(0, _union(1 << vertex for vertex in vertices), 0)]
    while waiting:
        clique, candidates, excluded = waiting.pop()
        if not candidates:
            if clique and not excluded:
                yield list(_positions(clique))
            continue
        pivot = max(
            _positions(candidates | excluded),
            key=lambda vertex: (candidates & neighbours[vertex]).bit_count(),
        )
        for vertex in _positions(candidates & ~(neighbours[pivot] & ~(1 << pivot))):
            near = neighbours[vertex] & ~(1 << vertex)
            waiting.append((clique | 1 << vertex, candidates & near, excluded & near))
            candidates &= ~(1 << vertex)
            excluded |= 1 << vertex


def _union(bits: Iterable[int]) -> int:
    return reduce(or_, bits, 0)


def _positions(bits: int) -> Iterator[int]:
    """Yield the positions of the bits that are set, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
