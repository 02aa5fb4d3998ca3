"""A plan of the changes that a file holds."""

from grants.errors import PlanError
from grants.journal import Author, current_revision
from grants.models import Plan, PlanVerb
from grants.plans.create import MAX_PLAN_ITEMS, PlanDraft, create_plan
from grants.plans.sources.change_file import ChangeFile, read_change_file

FILE = "file"


def create_plan_from_file(*, author: Author, raw: bytes, name: str = "", title: str = "") -> Plan:
    """raw: as `change_file.read_change_file` takes it. name: of the file, where it has one.

    Raises BadChangeFile with everything that is wrong with its lines, PlanError where it is too long or says nothing.
    """
    revision, found = current_revision(), read_change_file(raw)
    if len(found.changes) > MAX_PLAN_ITEMS:
        raise PlanError(f"the file holds {len(found.changes):,} changes, and {MAX_PLAN_ITEMS:,} are allowed in a plan: "
                        f"split it, and make a plan of each part")
    return create_plan(author=author, draft=PlanDraft(
        title=title or _title(found, name), origin=FILE, base_revision=revision, recipe={"file": name, "note": found.note},
        changes=((verb, *item) for item, (verb, _) in found.changes.items())))


def _title(found: ChangeFile, name: str) -> str:
    verbs = [verb for verb, _ in found.changes.values()]
    counts = [f"{verb} {verbs.count(verb):,}" for verb in PlanVerb.values if verb in verbs]
    return f"{' and '.join(counts).capitalize()} from {name or 'pasted text'}"
