"""Determine whether two accounts belong to the same person, for the rules of four eyes.

A person uses an account and the API tokens that this account created, also those of service accounts. A
person also controls another account for a while after setting its password, its console role or its second
factor, after inviting it, or after appointing it to decide about requests.
"""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet
from django.utils import timezone

from entities.vocabulary import Privilege
from grants.author_names import ACCOUNT_SUFFIX, is_reserved_name
from grants.journal import Author
from grants.journal_details import parse_detail
from grants.models import (
    GroupGrant,
    JournalLine,
    NamespaceApprovers,
    NamespaceSteward,
    User,
    permission_ids,
)
from grants.policies.principals import group_text

# changes that let their author sign in as the account, or that make it an administrator
CONTROL_ACTIONS = (
    "password-set",
    "role-set",
    "factor-reset",
    "identity-link",
    "user-add",
    "user-activate",
    "user-rename",
    "user-invite",
)
# The author of these actions knows a secret that works for FIRST_PASSWORD_HOURS. Control begins when the author uses it.
SECRET_ACTIONS = ("password-set", "user-invite")
# changes that let their author choose who approves
APPOINTMENT_ACTIONS = ("steward-propose", "steward-add", "approvers-propose", "approvers-set")
# (number of an API token) -> keys of the accounts that created it
TokenCreators = Callable[[int], set[int]]
# (keys of accounts) -> keys of the service accounts for which they created an active token
ServiceAccounts = Callable[[Collection[int]], set[int]]
_lookups: list[tuple[TokenCreators, ServiceAccounts]] = []


def register_token_lookups(creators: TokenCreators, service_accounts: ServiceAccounts) -> None:
    """Register the functions of the layer above, which knows the tokens."""
    if (creators, service_accounts) not in _lookups:
        _lookups.append((creators, service_accounts))


def accounts_of(author: Author) -> set[int]:
    """Return the keys of the author's account and of the creator of its token; empty for a command.

    Runs no query without a token.
    """
    if author.user_id is None:
        return set()
    return {author.user_id}.union(
        *(creators(author.token) for creators, _ in _lookups if author.token is not None)
    )


def makers_of_plan(maker_ids: Collection[int], made_by: str) -> set[int]:
    """Return the keys of the accounts of the person who made a plan with these fields; empty if a command
    made it.

    Plans of earlier versions have no `maker_ids`, so the name in `made_by` counts. Runs at most one query.
    """
    return set(maker_ids) or set(User.objects.filter(username=made_by).values_list("pk", flat=True))


def with_service_accounts(accounts: Collection[int]) -> set[int]:
    """Return the accounts and the service accounts that they can act as."""
    return set(accounts).union(*(service_accounts(accounts) for _, service_accounts in _lookups))


def are_one_person(accounts: Collection[int], others: Collection[int]) -> bool:
    """Return whether these accounts belong to one person, or the accounts of one person control the others."""
    return not set(accounts).isdisjoint(others) or controlling_line(accounts, others) is not None


def controlling_line(accounts: Collection[int], others: Collection[int]) -> JournalLine | None:
    """Return a journal line with which one side could have got control over an account of the other side in the last
    FOUR_EYES_ACCOUNT_HOURS.

    Runs four queries.
    """
    if not settings.FOUR_EYES_ACCOUNT_HOURS:
        return None
    renames = _renames(_recent_lines(_secret_hours()))
    names, other_names = (_names(keys, renames) for keys in (accounts, others))
    condition = _is_change_of(names, other_names) | _is_change_of(other_names, names)
    return _control_lines().filter(condition).order_by("-revision").first()


def names_of(accounts: Collection[int]) -> set[str]:
    """Return the names that the accounts have now, and those that they had within the last day.

    Runs two queries.
    """
    return _names(accounts, _renames(JournalLine.objects.filter(at__gte=timezone.now() - timedelta(days=1))))


def accounts_of_line(line: JournalLine) -> set[int]:
    """Return the keys of the accounts that wrote a line: another account may have got one of their names since.

    Runs two queries.
    """
    # an account of an earlier version can have a name with the suffix
    actors = line.actor, line.actor.removesuffix(ACCOUNT_SUFFIX)
    names = {name for name in (*actors, line.issuer) if name}
    later = JournalLine.objects.filter(action__in=("user-rename", "user-remove"), revision__gt=line.revision)
    for principal, detail in later.order_by("revision").values_list("principal", "detail"):
        if (name := principal.removeprefix("user:")) in names:
            names.remove(name)
            names.update([detail.removeprefix("user:")] if detail else [])
    return set(User.objects.filter(username__in=names).values_list("pk", flat=True))


def foreign_control(account: int) -> JournalLine | None:
    """Return a journal line with which another account could have got control over this account in the last
    FOUR_EYES_ACCOUNT_HOURS; None if there is none. Commands do not count. Runs three queries.
    """
    if not settings.FOUR_EYES_ACCOUNT_HOURS:
        return None
    names = _names({account}, _renames(_recent_lines(_secret_hours())))
    # a new name gives no control over an account that the settings name
    by_others = (
        _control_lines()
        .filter(principal__in={f"user:{name}" for name in names})
        .exclude(action="user-rename")
        .exclude(actor__in=written_names(names))
    )
    return next(
        (
            line
            for line in by_others.order_by("-revision")
            if line.actor.endswith(ACCOUNT_SUFFIX) or not is_reserved_name(line.actor)
        ),
        None,
    )


def appointing_line(approver: int, requesters: Collection[int]) -> JournalLine | None:
    """Return a journal line of the last FOUR_EYES_ACCOUNT_HOURS with which one of the requesters gave an account
    the right to decide: as data steward, as member of a group or role of stewards or approvers, or with ADMIN.

    Runs at most eight queries.
    """
    if not settings.FOUR_EYES_ACCOUNT_HOURS:
        return None
    lines = _recent_lines()
    renames = _renames(lines)
    requester_names = _names(requesters, renames)
    own = {f"user:{name}" for name in _names({approver}, renames)}
    groups = _deciding_groups(approver, lines)
    theirs = lines.filter(
        Q(actor__in=written_names(requester_names)) | Q(issuer__in=requester_names)
    ).order_by("-revision")
    appoints = Q(action__in=APPOINTMENT_ACTIONS) | Q(action="grant", privilege=Privilege.ADMIN)
    if line := theirs.filter(appoints, principal__in=own | groups).first():
        return line
    # also the memberships of a group in a role
    joins = theirs.filter(action="member-add", principal__in=own | groups)
    return next((line for line in joins if parse_detail(line.detail).rest in groups), None)


def _deciding_groups(account: int, lines: QuerySet[JournalLine]) -> set[str]:
    """Return the groups and roles of an account that make it a steward, an approver or a holder of ADMIN, also through a
    role, by their written names now and before the renames in these lines.
    """
    decides = (
        Q(pk__in=NamespaceApprovers.objects.values("group"))
        | Q(pk__in=NamespaceSteward.objects.exclude(group=None).values("group"))
        | Q(pk__in=GroupGrant.objects.filter(permission_id=permission_ids()[Privilege.ADMIN]).values("group"))
    )
    deciding = Group.objects.filter(decides, belongings__user=account)
    in_roles = Group.objects.filter(user=account, roles__role__in=deciding.values("pk"))
    names = {
        group_text(name) for rows in (deciding, in_roles) for name in rows.values_list("name", flat=True)
    }
    for old, new in _renames(lines, "group-rename"):
        if new in names:
            names.add(old)
    return names


def written_names(names: set[str]) -> set[str]:
    """Return these names in the form in which journal lines contain them as actors."""
    return {f"{name}{ACCOUNT_SUFFIX}" for name in names if is_reserved_name(name)} | names


def _recent_lines(hours: int | None = None) -> QuerySet[JournalLine]:
    """Return the lines of the last hours, by default FOUR_EYES_ACCOUNT_HOURS."""
    hours = settings.FOUR_EYES_ACCOUNT_HOURS if hours is None else hours
    return JournalLine.objects.filter(at__gte=timezone.now() - timedelta(hours=hours))


def end_of_control(line: JournalLine) -> datetime:
    """Return the time until which the account of a line and its author count as one person."""
    is_secret = line.action in SECRET_ACTIONS
    return line.at + timedelta(hours=_secret_hours() if is_secret else settings.FOUR_EYES_ACCOUNT_HOURS)


def _secret_hours() -> int:
    return settings.FOUR_EYES_ACCOUNT_HOURS + settings.FIRST_PASSWORD_HOURS


def _control_lines() -> QuerySet[JournalLine]:
    """Return the lines with which control over an account could have begun in the last FOUR_EYES_ACCOUNT_HOURS."""
    others = [action for action in CONTROL_ACTIONS if action not in SECRET_ACTIONS]
    recent = Q(at__gte=timezone.now() - timedelta(hours=settings.FOUR_EYES_ACCOUNT_HOURS))
    return _recent_lines(_secret_hours()).filter(Q(action__in=SECRET_ACTIONS) | Q(recent, action__in=others))


def _renames(lines: QuerySet[JournalLine], action: str = "user-rename") -> list[tuple[str, str]]:
    return list(lines.filter(action=action).order_by("-revision").values_list("principal", "detail"))


def _names(accounts: Collection[int], renames: list[tuple[str, str]]) -> set[str]:
    """Return the names of the accounts now and before these renames, which are sorted from new to old."""
    names = set(User.objects.filter(pk__in=accounts).values_list("username", flat=True))
    for old, new in renames:
        if new.removeprefix("user:") in names:
            names.add(old.removeprefix("user:"))
    return names


def _is_change_of(actors: set[str], names: set[str]) -> Q:
    """Return the condition that a line is a change of one of these accounts by one of the actors."""
    return (Q(actor__in=written_names(actors)) | Q(issuer__in=actors)) & Q(
        principal__in={f"user:{name}" for name in names}
    )
