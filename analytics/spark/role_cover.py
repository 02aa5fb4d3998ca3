"""Cover the assignments of permissions to users with as few roles as possible, exactly: no assignment is missing or added.

A role gives all of its permissions to all of its users: it is a biclique of the graph of users and permissions. The fewest roles are a
minimum biclique cover, which is NP-hard. Three steps find it, or come close in a tenant with many irregular assignments:

1. Reduction to a kernel (`analytics.spark.role_kernel`), which often is the solution.
2. Candidates: all maximal roles of the kernel. If these are too many, one role for each user, one for each permission, and the roles of a
   greedy method (Ene, Horne, Milosavljevic, Rao, Schreiber and Tarjan, "Fast exact and heuristic methods for role minimization
   problems", SACMAT 2008). It takes the user or permission with the fewest assignments that no role covers yet, and covers all of
   these with one role. It is repeated with ties broken in other orders.
3. Selection. An integer program chooses the fewest candidates that cover the kernel.

No Django and no Spark, and everything is in memory: about 400 bytes for each assignment.
"""

import heapq
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from analytics.spark.role_kernel import Assignment, Kernel, Role, Sets, common_members, inverse_sets

# The greedy method is repeated until it has processed this many wanted assignments, at least once and at most MAX_RUNS times.
ASSIGNMENTS_PROCESSED = 3_000_000
MAX_RUNS = 16
# The integer program returns the best selection that it has found after this many nodes of its search, so that every run has the same
# result, or after this time.
SELECTION_NODES, SELECTION_SECONDS = 10, 60.0


def fewest_roles(permissions_by_user: Mapping[int, Collection[int]]) -> list[Role]:
    """Return roles that together are exactly the assignments, those that cover the most first.

    The result is the same in every run unless the selection reaches SELECTION_SECONDS.
    """
    users, user_classes = _distinct({user: set(held) for user, held in permissions_by_user.items() if held})
    permissions, permission_classes = _distinct(inverse_sets(users))
    users = inverse_sets(permissions)
    kernel = Kernel(users, permissions)
    roles = [
        Role(_vertices_of(role.users, user_classes), _vertices_of(role.permissions, permission_classes))
        for role in kernel.cover(_selected_roles(kernel, users, permissions))
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


def _vertices_of(vertices: Iterable[int], classes: Mapping[int, list[int]]) -> frozenset[int]:
    return frozenset(member for vertex in vertices for member in classes[vertex])


def _selected_roles(kernel: Kernel, users: Sets, permissions: Sets) -> list[Role]:
    """Return the fewest roles that were found for the wanted assignments of the kernel."""
    if not kernel.wanted:
        return []
    covers = [
        *_greedy_covers(users, permissions, kernel.wanted),
        *_greedy_covers(users, permissions, users),
        *_covers_by_vertex(users, permissions),
    ]
    # with few candidates, the search comes to its end more often
    selected = _fewest(covers, kernel.wanted)
    maximal = kernel.maximal_roles()
    return _fewest([selected, maximal], kernel.wanted) if maximal else selected


def _covers_by_vertex(users: Sets, permissions: Sets) -> list[list[Role]]:
    """Return a cover with one role for each user, and one with a role for each permission."""
    return [
        [Role(frozenset(common_members(permissions, held)), frozenset(held)) for held in users.values()],
        [
            Role(frozenset(holders), frozenset(common_members(users, holders)))
            for holders in permissions.values()
        ],
    ]


def _greedy_covers(users: Sets, permissions: Sets, wanted: Sets) -> list[list[Role]]:
    """Return a cover of the wanted assignments for each run of the greedy method."""
    assignments = sum(map(len, wanted.values()))
    runs = min(MAX_RUNS, 1 + ASSIGNMENTS_PROCESSED // max(assignments, 1))
    return [
        list(_greedy_roles(users, permissions, wanted, random.Random(seed).random)) for seed in range(runs)
    ]


def _greedy_roles(
    users: Sets, permissions: Sets, wanted: Sets, tie_breaker: Callable[[], float]
) -> Iterator[Role]:
    """Yield maximal roles until every wanted assignment is covered."""
    sides = (users, permissions)
    uncovered = tuple(
        {vertex: set(members) for vertex, members in side.items()} for side in (wanted, inverse_sets(wanted))
    )
    # stale entries stay in the heap: the number of uncovered assignments of their vertex has changed
    heap = [
        (len(members), tie_breaker(), side, vertex)
        for side in (0, 1)
        for vertex, members in uncovered[side].items()
    ]
    heapq.heapify(heap)
    while heap:
        size, _, side, vertex = heapq.heappop(heap)
        missing = uncovered[side][vertex]
        if not missing or len(missing) != size:
            continue
        alike = common_members(sides[1 - side], missing)
        shared = common_members(sides[side], alike)
        role = Role(*map(frozenset, (alike, shared) if side == 0 else (shared, alike)))
        yield role
        for changed_side, changed in _cover(role, uncovered):
            if members := uncovered[changed_side][changed]:
                heapq.heappush(heap, (len(members), tie_breaker(), changed_side, changed))


def _cover(role: Role, uncovered: tuple[Sets, ...]) -> set[tuple[int, int]]:
    """Remove the assignments of a role from those that are not covered; return the (side, vertex) with fewer."""
    by_user, by_permission = uncovered
    changed = set()
    for user in role.users & by_user.keys():
        covered = by_user[user] & role.permissions
        if covered:
            by_user[user] -= covered
            changed.add((0, user))
        for permission in covered:
            by_permission[permission].discard(user)
            changed.add((1, permission))
    return changed


def _fewest(covers: list[list[Role]], wanted: Sets) -> list[Role]:
    """Return the fewest roles of all covers that together cover what is wanted. At worst, that is the smallest cover."""
    candidates = list(dict.fromkeys(role for cover in covers for role in cover))
    constraints = _constraints(candidates, wanted)
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


def _constraints(candidates: list[Role], wanted: Sets) -> list[tuple[int, ...]]:
    """Return the sets of candidates of which at least one must be selected: those with one wanted assignment.

    Assignments with the same candidates are one constraint.
    """
    roles_of: dict[Assignment, list[int]] = defaultdict(list)
    for number, role in enumerate(candidates):
        for user in role.users & wanted.keys():
            for permission in role.permissions & wanted[user]:
                roles_of[user, permission].append(number)
    return sorted(set(map(tuple, roles_of.values())))
