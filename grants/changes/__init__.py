"""Make changes: grants, memberships, the status of users, removals, the states of entities, and the active
generation.

`preview` shows the effect of a change set, `apply` makes it. Each type of change is written in one function
(`grants`, `memberships`, `principals`, `entities`), which checks, writes and appends the journal lines. The
types of changes are in `grants.change_set`.
"""

from grants.change_set import Change, ChangeSet
from grants.changes.previews import Preview, newest_change_job, preview
from grants.changes.services import (
    Shown,
    apply,
    can_make,
    capability_to_make,
    check_shown,
    request_change_effect,
    write_changes,
)
from grants.outcomes import Outcome

__all__ = [
    "Change",
    "ChangeSet",
    "Outcome",
    "Preview",
    "Shown",
    "apply",
    "can_make",
    "capability_to_make",
    "check_shown",
    "newest_change_job",
    "preview",
    "request_change_effect",
    "write_changes",
]
