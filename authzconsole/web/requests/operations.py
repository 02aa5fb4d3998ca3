"""The choices of operations in the forms of requests."""

from collections.abc import Sequence

from authzconsole.web.shared.levels import operations_in_groups
from entities.vocabulary import KINDS, Privilege
from grants.active_generation import active_generation


def requestable_operations(kind: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the operations as groups of choices: those of the kind by access level, or of all kinds if it is empty; and the
    privileges.
    """
    groups: list[tuple[str, Sequence[str]]]
    if kind:
        groups = [*operations_in_groups(active_generation(), kind)]
    else:
        groups = [(each.title.capitalize(), each.operations) for each in KINDS.values() if each.operations]
    groups.append(("Privilege on exactly this address", tuple(map(str, Privilege))))
    return [(title, [(name, name) for name in names]) for title, names in groups]
