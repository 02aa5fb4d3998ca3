"""Make changes: grants, memberships, the status of users, removals, the states of entities, and the active
generation.

`preview` shows the effect of a change set, `apply` makes it. Each type of change is written in one function
(`grants`, `memberships`, `principals`, `entities`), which checks, writes and appends the journal lines. The
types of changes are in `grants.change_set`.
"""

from grants.change_set import Change, ChangeSet
from grants.changes.entities import describe_entity
from grants.changes.grants import StoredRow, existing_grants, first_misplaced_grant, insert_grant_rows
from grants.changes.guardrails import end_exceptions
from grants.changes.memberships import (
    changed_members,
    existing_memberships,
    remove_all_memberships,
    role_group_fault,
    write_memberships,
)
from grants.changes.own_access import give_back
from grants.changes.period_lines import EXPIRE_ACTION, write_period_lines
from grants.changes.services import (
    Preview,
    Shown,
    added_violations,
    apply,
    can_make,
    capability_to_make,
    check_shown,
    compute_change_effect,
    newest_change_job,
    preview,
    register_plan_writer,
    request_change_effect,
    validated_principals,
    write_changes,
)
from grants.outcomes import Outcome
