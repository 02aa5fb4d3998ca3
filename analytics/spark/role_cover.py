"""Cover the assignments of permissions to users with as few roles as possible, exactly: no assignment is missing or added.

A role gives all of its permissions to all of its users: it is a biclique of the graph of users and permissions. The fewest roles are a
minimum biclique cover, which is NP-hard, so two steps approximate it:

1. Candidates. One role for each user, one for each permission, and the roles of a greedy method (Ene, Horne, Milosavljevic, Rao,
   Schreiber and Tarjan, "Fast exact and heuristic methods for role minimization problems", SACMAT 2008). It takes the user or
   permission with the fewest assignments that no role covers yet, and covers all of these with one role. It is repeated with ties broken
   in other orders.
2. Selection. An integer program chooses the fewest candidates that cover every assignment.

No Django and no Spark, and everything is in memory: about 400 bytes for each assignment.
"""

import heapq
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from entities.frozen import frozen

# The greedy method is repeated until it has processed this many assignments, at least once and at most MAX_RUNS times.
ASSIGNMENTS_PROCESSED = 3_000_000
MAX_RUNS = 16
# The integer program returns the best selection that it has found after this many nodes of its search, so that every run has the same
# result, or after this time.
SELECTION_NODES, SELECTION_SECONDS = 10, 60.0

# the permissions of each user, or the users of each permission
Sets = dict[int, set[int]]


@frozen
class Role:
    """All of these users have all of these permissions."""

    users: frozenset[int]
    permissions: frozenset[int]

    @property
    def assignments(self) -> int:
        """The number of assignments that the role covers."""
        return len(self.users) * len(self.permissions)


def fewest_roles(permissions_by_user: Mapping[int, Collection[int]]) -> list[Role]:
    """Return roles that together are exactly the assignments, those that cover the most first.

    The result is the same in every run unless the selection reaches SELECTION_SECONDS.
    """
    users, user_classes = _distinct({user: set(held) for user, held in permissions_by_user.items() if held})
    permissions, permission_classes = _distinct(_inverse_sets(users))
    users = _inverse_sets(permissions)
    roles = [
        Role(_members(role.users, user_classes), _members(role.permissions, permission_classes))
        for role in _fewest(
            [*_greedy_covers(users, permissions), *_covers_by_vertex(users, permissions)], users
        )
    ]
    return sorted(roles, key=lambda role: (-role.assignments, min(role.users), min(role.permissions)))


def _distinct(sets: Sets) -> tuple[Sets, dict[int, list[int]]]:
    """Return one vertex of those with the same set, with its set and with the vertices that it stands for.

    A minimum cover of these vertices is one of all.
    """
    classes: dict[frozenset[int], list[int]] = defaultdict(list)
    for vertex in sorted(sets):
        classes[frozenset(sets[vertex])].append(vertex)
    return (
        {vertices[0]: set(members) for members, vertices in classes.items()},
        {vertices[0]: vertices for vertices in classes.values()},
    )


def _inverse_sets(sets: Sets) -> Sets:
    transposed: Sets = defaultdict(set)
    for vertex, members in sets.items():
        for member in members:
            transposed[member].add(vertex)
    return dict(transposed)


def _members(vertices: Iterable[int], classes: Mapping[int, list[int]]) -> frozenset[int]:
    return frozenset(member for vertex in vertices for member in classes[vertex])


def _greedy_covers(users: Sets, permissions: Sets) -> list[list[Role]]:
    """Return a cover for each run of the greedy method."""
    assignments = sum(map(len, users.values()))
    runs = min(MAX_RUNS, 1 + ASSIGNMENTS_PROCESSED // max(assignments, 1))
    return [list(_greedy_roles(users, permissions, random.Random(seed).random)) for seed in range(runs)]


def _covers_by_vertex(users: Sets, permissions: Sets) -> list[list[Role]]:
    """Return a cover with one role for each user, and one with a role for each permission."""
    return [
        [Role(frozenset(_common(permissions, held)), frozenset(held)) for held in users.values()],
        [Role(frozenset(holders), frozenset(_common(users, holders))) for holders in permissions.values()],
    ]


def _greedy_roles(users: Sets, permissions: Sets, tie_breaker: Callable[[], float]) -> Iterator[Role]:
    """Yield maximal roles until every assignment is covered."""
    sides = (users, permissions)
    uncovered = tuple({vertex: set(members) for vertex, members in side.items()} for side in sides)
    # stale entries stay in the heap: the number of uncovered assignments of their vertex has changed
    heap = [
        (len(members), tie_breaker(), side, vertex)
        for side in (0, 1)
        for vertex, members in uncovered[side].items()
    ]
    heapq.heapify(heap)
    while heap:
        size, _, side, vertex = heapq.heappop(heap)
        wanted = uncovered[side][vertex]
        if not wanted or len(wanted) != size:
            continue
        alike = _common(sides[1 - side], wanted)
        shared = _common(sides[side], alike)
        role = Role(*map(frozenset, (alike, shared) if side == 0 else (shared, alike)))
        yield role
        for changed_side, changed in _cover(role, uncovered):
            if members := uncovered[changed_side][changed]:
                heapq.heappush(heap, (len(members), tie_breaker(), changed_side, changed))


def _common(sets: Sets, vertices: Iterable[int]) -> set[int]:
    """Return the members that the sets of all these vertices have in common."""
    by_size = sorted((sets[vertex] for vertex in vertices), key=len)
    return by_size[0].intersection(*by_size[1:])


def _cover(role: Role, uncovered: tuple[Sets, ...]) -> set[tuple[int, int]]:
    """Remove the assignments of a role from those that are not covered; return the (side, vertex) with fewer."""
    by_user, by_permission = uncovered
    changed = set()
    for user in role.users:
        covered = by_user[user] & role.permissions
        if covered:
            by_user[user] -= covered
            changed.add((0, user))
        for permission in covered:
            by_permission[permission].discard(user)
            changed.add((1, permission))
    return changed


def _fewest(covers: list[list[Role]], users: Sets) -> list[Role]:
    """Return the fewest roles of all covers that together are a cover. At worst, that is the smallest cover."""
    candidates = list(dict.fromkeys(role for cover in covers for role in cover))
    constraints = _constraints(candidates, users)
    if not constraints:
        return []
    matrix = csr_array(
        (
            np.ones(sum(map(len, constraints))),
            np.fromiter((role for roles in constraints for role in roles), dtype=np.int64),
            np.cumsum([0, *map(len, constraints)]),
        ),
        shape=(len(constraints), len(candidates)),
    )
    solution = milp(
        np.ones(len(candidates)),
        constraints=LinearConstraint(matrix, lb=1),
        integrality=np.ones(len(candidates)),
        bounds=Bounds(0, 1),
        options={"node_limit": SELECTION_NODES, "time_limit": SELECTION_SECONDS},
    )
    values = [0.0] * len(candidates) if solution.x is None else solution.x
    selected = [role for role, value in zip(candidates, values, strict=True) if value > 0.5]
    return min(filter(None, (selected, *covers)), key=len)


def _constraints(candidates: list[Role], users: Sets) -> list[tuple[int, ...]]:
    """Return the sets of candidates of which at least one must be selected: those with one assignment.

    Assignments with the same candidates are one constraint.
    """
    roles_of: dict[tuple[int, int], list[int]] = {
        (user, permission): [] for user, held in users.items() for permission in held
    }
    for number, role in enumerate(candidates):
        for user in role.users:
            for permission in role.permissions:
                roles_of[user, permission].append(number)
    return sorted(set(map(tuple, roles_of.values())))
