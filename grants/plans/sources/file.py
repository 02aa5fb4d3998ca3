"""A plan of the changes that a file holds."""

from grants.errors import PlanError
from grants.journal import Author, current_revision
from grants.models import Plan, PlanVerb
from grants.plans.create import MOST_ITEMS, Draft, create_plan
from grants.plans.sources.change_file import ChangeFile, change_file_read

FILE = "file"


def create_plan_from_file(*, author: Author, raw: bytes, name: str = "", title: str = "") -> Plan:
    """raw: as `change_file.change_file_read` takes it. name: of the file, where it has one.

    Raises BadChangeFile with everything that is wrong with its lines, PlanError where it is too long or says nothing.
    """
    revision, found = current_revision(), change_file_read(raw)
    if len(found.changes) > MOST_ITEMS:
        raise PlanError(f"the file holds {len(found.changes):,} changes, and {MOST_ITEMS:,} are allowed in a plan: split it, and "
                        f"make a plan of each part")
    return create_plan(author=author, draft=Draft(
        title=title or _title(found, name), origin=FILE, base_revision=revision, recipe={"file": name, "note": found.note},
        changes=((verb, *item) for item, (verb, _) in found.changes.items())))


def _title(found: ChangeFile, name: str) -> str:
    verbs = [verb for verb, _ in found.changes.values()]
    counts = [f"{verb} {verbs.count(verb):,}" for verb in PlanVerb.values if verb in verbs]
    return f"{' and '.join(counts).capitalize()} from {name or 'pasted text'}"
