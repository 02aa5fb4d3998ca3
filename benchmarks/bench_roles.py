"""Compare the number of roles that role mining finds with published minima, and measure how well both modes find planted roles.

The data sets are those of Ene and others (SACMAT 2008), with a line `USER PERMISSION` for each assignment. They are not part of the
repository: ROLE_MINING_DATA is the folder with the files, and the table says which data sets have no file.
"""

import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from analytics.spark.role_cover import fewest_roles
from analytics.spark.role_kernel import Role
from analytics.spark.team_roles import team_roles

DATA = Path(os.environ.get("ROLE_MINING_DATA", "../shared/data/role-mining"))
# the published minimum number of roles, by data set and the names of its file
MINIMA = {
    ("americas_large", "al"): 398,
    ("americas_small", "as"): 178,
    ("apj",): 453,
    ("customer",): 276,
    ("domino",): 20,
    ("emea",): 34,
    ("firewall1", "fire1"): 64,
    ("firewall2", "fire2"): 10,
    ("healthcare", "hc"): 14,
}
MAX_RATIO, MAX_SECONDS = 1.02, 120.0
# of the columns after the name of the data set
WIDTHS = (6, 11, 11, 6, 17, 6, 7)
# with the largest surplus of roles of teams
SURPLUS = 0.2


@dataclass(frozen=True, slots=True)
class Planted:
    """Data sets in which each user has some of `roles` roles, with a share of the assignments missing.

    size: the numbers of permissions of the smallest and the largest role. sets: how many data sets. least: how many of the planted
    roles the roles of teams must have, without and with SURPLUS.
    """

    roles: int
    users: int
    permissions: int
    size: tuple[int, int]
    roles_of_user: int
    omitted: float
    least: tuple[int, int]
    sets: int = 1


# like those in the literature, and of the size of americas_large
PLANTED = (
    Planted(15, 120, 300, (5, 20), 2, 0.05, (45, 55), sets=5),
    *(
        Planted(398, 3_485, 10_127, (2, 55), 3, omitted, least)
        for omitted, least in ((0.0, (370, 370)), (0.001, (370, 370)), (0.01, (350, 350)))
    ),
)

Assignments = dict[int, set[int]]


def main() -> int:
    print(
        f"    roles of the data sets in {DATA.resolve()}; the limits are {MAX_RATIO} and {MAX_SECONDS:.0f} s"
    )
    _print_row(
        "   ",
        "data set",
        "users",
        "permissions",
        "assignments",
        "roles",
        "published minimum",
        "ratio",
        "seconds",
    )
    results = [_compare_with_minimum(names, minimum) for names, minimum in MINIMA.items()]
    results += map(_measure_planted_roles, PLANTED)
    return 0 if all(results) else 1


def _print_row(mark: str, name: str, *cells: int | str) -> None:
    texts = (f"{cell:,}" if isinstance(cell, int) else cell for cell in cells)
    columns = (f"{text:>{width}}" for text, width in zip(texts, WIDTHS, strict=True))
    print(f"{mark:<3} {name:<14}", *columns, flush=True)


def _compare_with_minimum(names: tuple[str, ...], minimum: int) -> bool:
    path = next((path for name in names if (path := DATA / f"{name}.txt").exists()), None)
    if path is None:
        files = " or ".join(f"{name}.txt" for name in names)
        _print_row("", names[0], "-", "-", "-", "-", minimum, "-", f"no file {files} in ROLE_MINING_DATA")
        return True
    assignments: Assignments = {}
    for line in path.read_text().splitlines():
        user, permission = map(int, line.split())
        assignments.setdefault(user, set()).add(permission)
    roles, seconds = _measured_roles(assignments)
    is_within_limits = len(roles) <= minimum * MAX_RATIO and seconds <= MAX_SECONDS
    _print_row(
        "ok" if is_within_limits else "LOW",
        names[0],
        len(assignments),
        len(set().union(*assignments.values())),
        sum(map(len, assignments.values())),
        len(roles),
        minimum,
        f"{len(roles) / minimum:.2f}",
        f"{seconds:.1f}",
    )
    return is_within_limits


def _measure_planted_roles(case: Planted) -> bool:
    """Print how many of the planted roles each mode finds, and which share of the assignments it covers."""
    total = case.roles * case.sets
    print(f"    {total} planted roles, {case.omitted:.1%} of the assignments missing", flush=True)
    modes: dict[str, tuple[Callable[[Assignments], list[Role]], int]] = {
        "fewest": (lambda assignments: _measured_roles(assignments)[0], 0),
        "teams": (team_roles, case.least[0]),
        f"teams, surplus up to {SURPLUS:.0%}": (partial(team_roles, surplus=SURPLUS), case.least[1]),
    }
    results = []
    for name, (mode, least) in modes.items():
        found = proposed = given = assigned = 0
        seconds = 0.0
        for seed in range(case.sets):
            assignments, planted = _planted_assignments(random.Random(seed + 1), case)
            started = time.perf_counter()
            roles = mode(assignments)
            seconds += time.perf_counter() - started
            found += len(planted & {role.permissions for role in roles})
            proposed += len(roles)
            covered = {(user, held) for role in roles for user in role.users for held in role.permissions}
            given += sum((user, held) in covered for user, row in assignments.items() for held in row)
            assigned += sum(map(len, assignments.values()))
        results.append(seconds <= MAX_SECONDS and found >= least)
        print(
            f"{'ok ' if results[-1] else 'LOW'}     {name}: {proposed} roles, {found} of them as planted (at least {least}), which "
            f"cover {given / assigned:.0%}, {seconds:.1f} s (limit {MAX_SECONDS:.0f} s)",
            flush=True,
        )
    return all(results)


def _planted_assignments(dice: random.Random, case: Planted) -> tuple[Assignments, set[frozenset[int]]]:
    """Return the assignments, and the permissions of each planted role."""
    roles = [
        frozenset(dice.sample(range(case.permissions), dice.randint(*case.size))) for _ in range(case.roles)
    ]
    assignments = {}
    for user in range(case.users):
        held = frozenset().union(*dice.sample(roles, dice.randint(1, case.roles_of_user)))
        assignments[user] = {permission for permission in sorted(held) if dice.random() >= case.omitted}
    return assignments, set(roles)


def _measured_roles(assignments: Assignments) -> tuple[list[Role], float]:
    """Return the roles and the seconds. Raise ValueError if they are not exactly the assignments."""
    started = time.perf_counter()
    roles = fewest_roles(assignments)
    seconds = time.perf_counter() - started
    covered: Assignments = {}
    for role in roles:
        for user in role.users:
            covered.setdefault(user, set()).update(role.permissions)
    if covered != {user: held for user, held in assignments.items() if held}:
        raise ValueError("the roles do not give exactly the assignments")
    return roles, seconds


if __name__ == "__main__":
    sys.exit(main())
