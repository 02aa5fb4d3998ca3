"""Create plans from a file of changes."""

from grants.errors import PlanError
from grants.models import GRANT_VERBS
from grants.plans.create import MAX_PLAN_ITEMS, PlanDraft, PlanOrigin, plan_source
from grants.plans.sources.change_file import ChangeFile, read_change_file


@plan_source(PlanOrigin.FILE)
def file_plan(*, raw: bytes, name: str = "", title: str = "") -> PlanDraft:
    """Return a plan of the changes in a file.

    raw: the content, in the format of `change_file`. name: the file name, if there is one. Raise
    BadChangeFile if lines are bad, PlanError if the file is too large or contains no changes.
    """
    file = read_change_file(raw)
    if len(file.changes) > MAX_PLAN_ITEMS:
        raise PlanError(
            f"the file contains {len(file.changes):,} changes, and {MAX_PLAN_ITEMS:,} are allowed in a plan: "
            f"split it, and create a plan from each part"
        )
    return PlanDraft(
        title=title or _title(file, name), recipe={"file": name, "note": file.note}, changes=file.changes
    )


def _title(file: ChangeFile, name: str) -> str:
    """Return a title such as `Grant 2 and revoke 1 from changes.csv`."""
    verbs = [change.verb for change in file.changes]
    counts = [f"{verb} {verbs.count(verb):,}" for verb in GRANT_VERBS if verb in verbs]
    return f"{' and '.join(counts).capitalize()} from {name or 'pasted text'}"
