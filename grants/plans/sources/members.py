"""Create plans that change the members of a group or role, from a list of names."""

import re
from collections.abc import Collection

from django.contrib.auth.models import Group

from entities.frozen import frozen
from entities.vocabulary import quantity
from grants.change_set import ChangeSet, Exclude, Include, Join, Leave
from grants.changes import role_group_fault
from grants.errors import PlanError
from grants.models import GROUP, PRINCIPAL_TYPES, USER, RoleGroup
from grants.plans.create import PlanDraft, PlanOrigin, plan_source
from grants.policies.principals import group_text, principal_text, type_and_name
from grants.principal_names import name_fault, principals_by_name
from grants.querysets import memberships
from grants.validity import Validity

MAX_NAMES = 10_000
MAX_FAULTS = 100
NO_LIMITS = Validity()
# `replace` makes the named principals the only members
VERBS = ("add", "remove", "replace")
_LINE_END = re.compile(r"\r\n|\r|\n")


@frozen
class NameFault:
    """A line that names no principal that can be a member. name: in written form."""

    line: int
    name: str
    reason: str


class BadNames(PlanError):
    """Lines of a list do not name possible members. faults: the first MAX_FAULTS of them. total: how many there are."""

    def __init__(self, faults: list[NameFault]):
        super().__init__(f"{quantity(len(faults), 'line does', 'lines do')} not name a possible member")
        self.faults, self.total = faults[:MAX_FAULTS], len(faults)


@frozen
class MembersChange:
    """The changes from a list of names. kept: the number of named members with an unchanged membership."""

    group: str
    join: tuple[Join | Include, ...]
    leave: tuple[Leave | Exclude, ...]
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


def read_names(group: Group, raw: bytes) -> list[str]:
    """Return the members that a text names in written form, one per line, each once. Only a role has groups as members.

    Empty lines and spaces around a name are ignored; a name without a type is that of a user. Raise PlanError if the text is
    not UTF-8, is empty or has more than MAX_NAMES names, BadNames if lines do not name a possible member. Runs the queries of
    `principals_by_name`.
    """
    try:
        lines = _LINE_END.split(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise PlanError("the list is not UTF-8 text: save it as UTF-8 and choose it again") from None
    named = [(number, _principal(line.strip())) for number, line in enumerate(lines, 1) if line.strip()]
    if not named:
        raise PlanError("there are no names: choose a file, or paste the names, one per line")
    if len(named) > MAX_NAMES:
        raise PlanError(
            f"the list contains {len(named):,} names, and {MAX_NAMES:,} are allowed: split it, and create a plan "
            "from each part"
        )
    faults = [NameFault(number, name, fault) for number, name in named if (fault := _fault(group, name))]
    invalid = {fault.name for fault in faults}
    names = list(dict.fromkeys(name for _, name in named if name not in invalid))
    known = principals_by_name(names)
    faults += [
        NameFault(
            number, name, f"does not exist: add the {type_and_name(name)[0]} first, or correct the name"
        )
        for number, name in named
        if name not in invalid and name not in known
    ]
    if faults:
        raise BadNames(sorted(faults, key=lambda fault: fault.line))
    return names


def _principal(text: str) -> str:
    """Return the principal that a line names in written form."""
    type_, name = type_and_name(text)
    return principal_text(type_, name) if type_ in PRINCIPAL_TYPES else principal_text(USER.name, text)


def _fault(group: Group, member: str) -> str:
    """Return why the principal cannot be a member of the group or role; empty if it can."""
    type_, name = type_and_name(member)
    is_group = type_ == GROUP.name
    return name_fault(name) or (role_group_fault(Include(name, group.name)) if is_group else "")


def members_change(group: Group, verb: str, names: Collection[str], validity: Validity) -> MembersChange:
    """Return what adding, removing or replacing the members changes. Runs two queries.

    names: of users and groups in written form. validity: of new memberships; existing members keep theirs. Raise PlanError if too many members would be
    removed.
    """
    members = set()
    for type_, rows, path in (
        (USER, memberships().filter(group=group), "user__username"),
        (GROUP, RoleGroup.objects.filter(role=group), "group__name"),
    ):
        if verb != "replace":
            of_type = [name for type_name, name in map(type_and_name, names) if type_name == type_.name]
            rows = rows.filter(**{f"{path}__among": of_type})
        found = rows.order_by().values_list(path, flat=True)[: 2 * MAX_NAMES + 1]
        members |= {principal_text(type_.name, name) for name in found}
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
        tuple(
            (Join if type_ == USER.name else Include)(name, group.name, validity)
            for type_, name in map(type_and_name, sorted(joining))
        ),
        tuple(
            (Leave if type_ == USER.name else Exclude)(name, group.name)
            for type_, name in map(type_and_name, sorted(leaving))
        ),
        kept,
    )


@plan_source(PlanOrigin.MEMBERS)
def members_plan(
    *, group: Group, verb: str, names: Collection[str], validity: Validity = NO_LIMITS
) -> PlanDraft:
    """Return a plan that adds, removes or replaces members. names: of users and groups in written form.

    Raise PlanError if this changes nothing, ValidityError.
    """
    validity.check_not_over()
    change = members_change(group, verb, names, validity)
    return PlanDraft(
        title=change.title,
        changes=change.change_set,
        empty_message=f"this changes no member of {group_text(group.name)}",
    )
