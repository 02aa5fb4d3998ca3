"""Create plans that change the members of a group, from a list of names."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from django.contrib.auth.models import Group

from entities.vocabulary import quantity
from grants.change_set import ChangeSet, Join, Leave
from grants.errors import PlanError
from grants.models import User
from grants.plans.create import PlanDraft, PlanOrigin, plan_source
from grants.policies.principals import group_text
from grants.principal_names import name_fault
from grants.querysets import memberships
from grants.validity import Validity

MAX_NAMES = 10_000
MAX_FAULTS = 100
NO_LIMITS = Validity()
# `replace` makes the named users the only members
VERBS = ("add", "remove", "replace")
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class NameFault:
    """A line that names no user."""

    line: int
    name: str
    reason: str


class BadNames(PlanError):
    """Lines of a list do not name users. faults: the first MAX_FAULTS of them. total: how many there are."""

    def __init__(self, faults: list[NameFault]):
        super().__init__(f"{quantity(len(faults), 'line does', 'lines do')} not name a user")
        self.faults, self.total = faults[:MAX_FAULTS], len(faults)


@dataclass(frozen=True, slots=True)
class MembersChange:
    """What a list of names changes. kept: the number of named users whose membership does not change."""

    group: str
    join: tuple[Join, ...]
    leave: tuple[Leave, ...]
    kept: int

    @property
    def change_set(self) -> ChangeSet:
        return ChangeSet.of(*self.join, *self.leave)

    @property
    def title(self) -> str:
        """A title such as `Add 40 members to and remove 2 from group:analysts`."""
        parts = [
            f"add {quantity(len(self.join), 'member', 'members')} to" if self.join else "",
            f"remove {quantity(len(self.leave), 'member', 'members')} from" if self.leave else "",
        ]
        text = " and ".join(filter(None, parts))
        return f"{text[:1].upper()}{text[1:]} {group_text(self.group)}"


def read_names(raw: bytes) -> list[str]:
    """Return the users that a text names, one per line, each once.

    Empty lines, spaces around a name and the prefix `user:` are ignored. Raise PlanError if the text is not
    UTF-8, is empty or has more than MAX_NAMES names, BadNames if lines do not name a user. Runs one query.
    """
    try:
        lines = _LINE_END.split(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise PlanError("the list is not UTF-8 text: save it as UTF-8 and choose it again") from None
    named = [
        (number, name) for number, line in enumerate(lines, 1) if (name := line.strip().removeprefix("user:"))
    ]
    if not named:
        raise PlanError("there are no names: choose a file, or paste the names, one per line")
    if len(named) > MAX_NAMES:
        raise PlanError(
            f"the list contains {len(named):,} names, and {MAX_NAMES:,} are allowed: split it, and create a plan "
            "from each part"
        )
    faults = [NameFault(number, name, fault) for number, name in named if (fault := name_fault(name))]
    invalid = {fault.name for fault in faults}
    names = list(dict.fromkeys(name for _, name in named if name not in invalid))
    known = set(User.objects.filter(username__among=names).values_list("username", flat=True))
    faults += [
        NameFault(number, name, "does not exist: add the user first, or correct the name")
        for number, name in named
        if name not in invalid and name not in known
    ]
    if faults:
        raise BadNames(sorted(faults, key=lambda fault: fault.line))
    return names


def members_change(
    group: Group, verb: str, names: Collection[str], validity: Validity = NO_LIMITS
) -> MembersChange:
    """Return what adding, removing or replacing the members changes. Runs one query.

    validity: of new memberships; existing members keep theirs. Raise PlanError if too many members would be
    removed.
    """
    stored = memberships().filter(group=group)
    if verb != "replace":
        stored = stored.filter(user__username__among=list(names))
    members = set(stored.order_by().values_list("user__username", flat=True)[: 2 * MAX_NAMES + 1])
    if len(members) > 2 * MAX_NAMES:
        raise PlanError(
            f"{group_text(group.name)} has more than {2 * MAX_NAMES:,} members: remove members by name instead"
        )
    named = set(names)
    joining = named - members if verb != "remove" else set()
    leaving = {"add": set(), "remove": named & members, "replace": members - named}[verb]
    kept = len(named) - len(joining) - (len(leaving) if verb == "remove" else 0)
    return MembersChange(
        group.name,
        tuple(Join(name, group.name, validity) for name in sorted(joining)),
        tuple(Leave(name, group.name) for name in sorted(leaving)),
        kept,
    )


@plan_source(PlanOrigin.MEMBERS)
def members_plan(
    *, group: Group, verb: str, names: Collection[str], validity: Validity = NO_LIMITS
) -> PlanDraft:
    """Return a plan that adds, removes or replaces members.

    Raise PlanError if this changes nothing, ValidityError.
    """
    validity.check_not_over()
    change = members_change(group, verb, names, validity)
    return PlanDraft(
        title=change.title,
        changes=change.change_set,
        empty_message=f"this changes no member of {group_text(group.name)}",
    )
