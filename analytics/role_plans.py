"""Read the roles of a `role-mining` report, for a plan that replaces direct grants by groups (`grants.plans.sources.roles`).

The plan checks every grant and membership again, so it does not matter whether the report is older than the data.
"""

from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from django.contrib.auth.models import Group

from analytics.analyses import AnalysisError, AnalysisName
from analytics.models import AnalysisRun
from analytics.results.read import result_page, result_stream
from entities.address import parse_address
from entities.vocabulary import privilege_by_name
from grants.errors import PlanError
from grants.plans.create import MAX_PLAN_ITEMS
from grants.plans.sources.roles import ProposedRole

MAX_ROLES = 1_000


def group_names(run: AnalysisRun, *, size: int = MAX_ROLES) -> dict[int, str]:
    """Return the name of a group for each of the first `size` roles, at most MAX_ROLES, by number.

    It is the existing group with exactly these users, or a new name. Raise AnalysisError if the run has no such report,
    StorageError if it cannot be read.
    """
    if run.type != AnalysisName.ROLE_MINING:
        raise AnalysisError(
            f"run {run.pk} is a run of {run.type}: only a report of {AnalysisName.ROLE_MINING} has roles"
        )
    rows = result_page(run, max_rows=min(size, MAX_ROLES)).rows
    prefix = f"{run.options['namespace']}-role" if run.options.get("namespace") else "role"
    return {row["role"]: row["group"] for row in rows if row["group"]} | _new_names(
        {row["role"]: f"{prefix[:100]}-{row['role']}" for row in rows if not row["group"]}
    )


def _new_names(names: dict[int, str]) -> dict[int, str]:
    """Return the names, each with a number after it if a group has the name already. Runs one query for each number."""
    result: dict[int, str] = {}
    attempt = 1
    while names:
        candidates = {role: name if attempt == 1 else f"{name}-{attempt}" for role, name in names.items()}
        taken = set(Group.objects.filter(name__in=candidates.values()).values_list("name", flat=True))
        result |= {role: name for role, name in candidates.items() if name not in taken}
        names = {role: name for role, name in names.items() if role not in result}
        attempt += 1
    return result


def proposed_roles(run: AnalysisRun, groups: Mapping[int, str] | None) -> list[ProposedRole]:
    """Return roles of a report, by number.

    groups: by number of a role, the name of its group, or an empty name for that of `group_names`; None for all
    of these. Raise the errors of `group_names`, and PlanError for an unknown role or too many members and permissions.
    """
    names = group_names(run)
    chosen = names if groups is None else {role: name or names.get(role, "") for role, name in groups.items()}
    if unknown := sorted(role for role in chosen if role not in names):
        raise PlanError(
            f"the first {MAX_ROLES:,} roles of run {run.pk} have no role {unknown[0]}: choose another one"
        )
    members = _values_by_role(run, "members", chosen)
    permissions = _values_by_role(run, "permissions", chosen)
    return [
        ProposedRole(
            role,
            name,
            frozenset(user for (user,) in members[role]),
            frozenset(
                (parse_address(entity), privilege_by_name(privilege))
                for entity, privilege in permissions[role]
            ),
        )
        for role, name in sorted(chosen.items())
    ]


def _values_by_role(run: AnalysisRun, table: str, roles: Collection[int]) -> dict[int, list[tuple[str, ...]]]:
    """Return the columns of a table after `role`, by role. Raise PlanError if no plan can have so many rows."""
    values: dict[int, list[tuple[str, ...]]] = {role: [] for role in roles}
    wanted, total = pa.array(list(roles), pa.int64()), 0
    for batch in result_stream(run, table):
        rows = batch.filter(pc.is_in(batch.column("role"), value_set=wanted))
        total += rows.num_rows
        if total > MAX_PLAN_ITEMS:
            raise PlanError(
                f"the roles have more than {MAX_PLAN_ITEMS:,} {table}, which is the limit of a plan: choose fewer roles"
            )
        for role, *row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            values[role].append(tuple(row))
    return values
