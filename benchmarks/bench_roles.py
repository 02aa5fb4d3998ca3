"""Compare the number of roles that role mining finds with published minima, and measure how well it finds planted roles.

The data sets are those of Ene and others (SACMAT 2008), with a line `USER PERMISSION` for each assignment. They are not part of the
repository: ROLE_MINING_DATA is the folder with the files, and data sets without a file are left out.
"""

import os
import random
import sys
import time
from pathlib import Path

from analytics.spark.role_cover import Role, fewest_roles

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
# of the size of americas_large
PLANTED_USERS, PLANTED_PERMISSIONS, PLANTED_ROLES = 3_485, 10_127, 398
OMITTED_SHARES = (0.0, 0.001, 0.01)

Assignments = dict[int, set[int]]


def main() -> int:
    results = [_compare_with_minimum(names, minimum) for names, minimum in MINIMA.items()]
    results += [_measure_planted_roles(share) for share in OMITTED_SHARES]
    return 0 if all(results) else 1


def _compare_with_minimum(names: tuple[str, ...], minimum: int) -> bool:
    path = next((path for name in names if (path := DATA / f"{name}.txt").exists()), None)
    if path is None:
        print(f"    {names[0]}: no file in ROLE_MINING_DATA")
        return True
    assignments: Assignments = {}
    for line in path.read_text().splitlines():
        user, permission = map(int, line.split())
        assignments.setdefault(user, set()).add(permission)
    roles, seconds = _measured_roles(assignments)
    is_within_limits = len(roles) <= minimum * MAX_RATIO and seconds <= MAX_SECONDS
    print(
        f"{'ok ' if is_within_limits else 'LOW'} {names[0]}: {len(roles)} roles, published minimum {minimum} "
        f"(at most {MAX_RATIO} times), {seconds:.1f} s (limit {MAX_SECONDS:.0f} s)",
        flush=True,
    )
    return is_within_limits


def _measure_planted_roles(omitted_share: float) -> bool:
    """Print how many roles cover planted ones of which a share of the assignments is missing, and how many are among them."""
    assignments, planted = _planted_assignments(random.Random(1), omitted_share)
    roles, seconds = _measured_roles(assignments)
    found = len(planted & {role.permissions for role in roles})
    print(
        f"{'ok ' if seconds <= MAX_SECONDS else 'LOW'} {PLANTED_ROLES} planted roles, {omitted_share:.1%} of the assignments "
        f"missing: {len(roles)} roles, {found} of them as planted, {seconds:.1f} s (limit {MAX_SECONDS:.0f} s)",
        flush=True,
    )
    return seconds <= MAX_SECONDS


def _planted_assignments(
    dice: random.Random, omitted_share: float
) -> tuple[Assignments, set[frozenset[int]]]:
    """Return the assignments, and the permissions of each planted role."""
    roles = [
        frozenset(dice.sample(range(PLANTED_PERMISSIONS), dice.randint(2, 55))) for _ in range(PLANTED_ROLES)
    ]
    assignments = {}
    for user in range(PLANTED_USERS):
        held = frozenset().union(*dice.sample(roles, dice.randint(1, 3)))
        assignments[user] = {permission for permission in sorted(held) if dice.random() >= omitted_share}
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
