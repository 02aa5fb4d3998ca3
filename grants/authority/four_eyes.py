"""Four eyes: the changes that one person may not make alone (FOUR_EYES), and the reason that changes need
(REASON_REQUIRED).

A change needs a second person if it

- has more than FOUR_EYES_MAX_ITEMS items, alone or together with the other changes that the same person made
  alone within the last hour,
- changes grants in a namespace of PROTECTED_NAMESPACES,
- grants ADMIN,
- appoints a data steward or an approver, through a group, or
- concerns the person who makes it.

Such a change is only possible with a plan that another person applies. The services call these checks, so
pages, REST and provisioning obey them.

Management commands are exempt, because a person who can start them can also write to the database. So is an
account with break-glass access.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import Group
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from entities.address import Address, parse_grantable
from entities.frozen import frozen
from entities.patterns import matches, reveals
from entities.vocabulary import Privilege, clip, join_words
from grants.authority.break_glass import has_break_glass_access
from grants.authority.persons import (
    accounts_of,
    appointing_line,
    are_one_person,
    controlling_line,
    end_of_control,
    makers_of_plan,
    names_of,
    with_service_accounts,
    written_names,
)
from grants.change_set import (
    Activate,
    Change,
    Exclude,
    Grant,
    Include,
    Join,
    Leave,
    MembershipChange,
    Revoke,
)
from grants.derived import matched_count
from grants.errors import ReasonMissing, SecondPersonRequired
from grants.journal import Author
from grants.journal_details import parse_detail
from grants.models import (
    ACTIVATION_VERBS,
    USER,
    GroupGrant,
    JournalLine,
    NamespaceApprovers,
    NamespaceSteward,
    Plan,
    PlanState,
    PlanVerb,
    User,
    UserGrant,
    grants_through,
    permission_ids,
)
from grants.plan_items import pattern_changes
from grants.policies.principals import principal_text, type_and_name
from grants.policies.times import format_time
from grants.principal_names import format_principal, parse_principal

PERIOD = timedelta(hours=1)
# deactivations and their effect are not counted, so that access can be ended at once
ACTIONS = (
    "grant",
    "revoke",
    "member-add",
    "member-remove",
    "user-activate",
    "user-rename",
    "group-rename",
)
# of `Plan.effect`, the counts of changes with these actions
_PLAN_COUNTS = ("grants", "revokes", "joins", "leaves", "activations")
# names, or a query for names
Names = Collection[str] | QuerySet


def check_reason(author: Author) -> None:
    """Raise ReasonMissing if the change of an account needs a reason. Provisioning services send none."""
    if (
        settings.REASON_REQUIRED
        and author.user_id is not None
        and not author.is_provisioner
        and not author.reason.strip()
    ):
        raise ReasonMissing(
            "the reason is missing: this console requires one for every change of grants and memberships"
        )


def check_direct_change(author: Author, changes: Collection[Change], *, is_written: bool = False) -> None:
    """Raise ReasonMissing, or SecondPersonRequired if one person may not make these changes without a plan.

    Call it in the transaction of the changes, with those that have an effect: the error rolls them back. Only
    grants, memberships and activations count: access can always be ended at once.
    is_written: whether the journal has the lines of these changes already. Runs no query unless FOUR_EYES is
    on.
    """
    grants = [change for change in changes if isinstance(change, Grant | Revoke)]
    members = [change for change in changes if isinstance(change, MembershipChange)]
    activated = [change.user for change in changes if isinstance(change, Activate)]
    if not (grants or members or activated):
        return
    check_reason(author)
    if not is_restricted(author):
        return
    content = _Content(
        count=len(grants) + len(members) + len(activated) + _matched_count(grants),
        grants_admin=any(
            isinstance(change, Grant) and change.privilege == Privilege.ADMIN for change in grants
        ),
        namespaces={namespace.key for change in grants if (namespace := change.address.namespace)}
        | _protected_by_patterns(grants),
        users={name for change in grants if (name := _name(change, "user"))}
        | {change.user for change in members if isinstance(change, Join | Leave)}
        | {*activated},
        groups={name for change in grants if (name := _name(change, "group"))}
        | {change.group for change in members if isinstance(change, Include | Exclude)},
        receiving_users=activated,
        receiving_groups=_groups_with_grants(
            change for change in members if isinstance(change, Join | Include)
        ),
        changed_groups=_groups_with_grants(members),
        counts_hour=_is_person(author),
        is_written=is_written,
    )
    if reasons := content.reasons(accounts_of(author)):
        raise SecondPersonRequired(
            f"one person cannot make this change, because it {join_words(reasons)}: create a plan, and "
            "let another administrator apply it"
        )


def _protected_by_patterns(changes: Collection[Grant | Revoke]) -> set[str]:
    """Return the protected namespaces in which patterns match, or can match, an address."""
    patterns = {change.address for change in changes if change.address.is_pattern}
    return {
        name
        for name in settings.PROTECTED_NAMESPACES
        for pattern in patterns
        if matches(pattern, namespace := Address("namespace", name)) or reveals(pattern, namespace)
    }


def _matched_count(changes: Collection[Grant | Revoke]) -> int:
    """Return how many registered addresses the patterns of grants match, as far as the count matters."""
    grants = [change for change in changes if isinstance(change, Grant)]
    return matched_count(grants, settings.FOUR_EYES_MAX_ITEMS + 1)


def _groups_with_grants(changes: Iterable[MembershipChange]) -> set[str]:
    """Return the groups and roles that get or lose members, and the roles of these groups. Runs one query."""
    names = {change.group if isinstance(change, Join | Leave) else change.role for change in changes}
    return set(_with_roles(names).values_list("name", flat=True))


def _with_roles(groups: Names) -> QuerySet[Group]:
    """Return these groups, by name, and the roles that they are in."""
    return Group.objects.filter(Q(name__in=groups) | Q(role_groups__group__name__in=groups))


def check_rename(author: Author, principal: User | Group, new_name: str) -> None:
    """Raise SecondPersonRequired if one person may not rename the principal. Decisions are about names, so all its
    effective grants move to another name, and count as changed.
    """
    if not is_restricted(author):
        return
    old, count = format_principal(principal), sum(rows.count() for rows in grants_through(principal))
    kind, name = parse_principal(old)
    users, groups = ([name], []) if kind == USER.name else ([], [name])
    content = _Content(
        count=count,
        grants_admin=False,
        namespaces=(),
        users=users if count else (),
        groups=groups if count else (),
        receiving_users=users,
        receiving_groups=groups,
        changed_groups=groups,
        counts_hour=bool(count) and _is_person(author),
    )
    if reasons := content.reasons(accounts_of(author)):
        raise SecondPersonRequired(
            f"one person cannot rename {old}: its access would count for another name, which {join_words(reasons)}; "
            f"add {principal_text(kind, clip(new_name))}, and create a plan that gives it this access and takes it from {old}, "
            "which another administrator applies"
        )


def check_application(author: Author, plan: Plan) -> None:
    """Raise SecondPersonRequired if the author may not apply this plan, because the same person made it."""
    if sentence := application_fault(author, plan):
        raise SecondPersonRequired(sentence)


def application_fault(author: Author, plan: Plan) -> str:
    """Return why the person of the author may not apply the plan; empty if it may.

    Runs no query unless FOUR_EYES is on.
    """
    if not is_restricted(author):
        return ""
    accounts, makers = accounts_of(author), makers_of_plan(plan.maker_ids, plan.made_by)
    if not makers or not are_one_person(accounts, makers):
        return ""
    if not (reasons := _content_of_plan(plan).reasons(accounts | makers)):
        return ""
    return f"another person must apply {plan}, because it {join_words(reasons)}, and {_sameness(accounts, makers)}"


def check_approval(author: Author, requesters: Collection[int], *, decides_all: bool = True) -> None:
    """Raise SecondPersonRequired if the author and one of the requesters are the same person, whatever they
    request.

    This applies without FOUR_EYES too. Only with FOUR_EYES, accounts that the author controls count as the
    same person, and an approver whom one of the requesters appointed is not independent.

    requesters: the keys of the accounts of the person who made the request, and of the account for which it
    was made. decides_all: whether the author approves by its console role, and not by an appointment.
    Runs at most three queries for accounts and tokens, three more unless the author signed in, and those of
    `appointing_line`.
    """
    accounts = with_service_accounts(accounts_of(author))
    is_own = (
        are_one_person(accounts, requesters) if is_restricted(author) else not accounts.isdisjoint(requesters)
    )
    if is_own:
        raise SecondPersonRequired(
            "another person must approve this request: a person cannot approve their own request"
        )
    if decides_all or author.user_id is None or not is_restricted(author):
        return
    if appointing_line(author.user_id, requesters):
        raise SecondPersonRequired(
            "another person must approve this request: the person who made it gave you the right to approve it in "
            f"the last {settings.FOUR_EYES_ACCOUNT_HOURS} hours"
        )


def is_restricted(author: Author) -> bool:
    """Return whether the rules apply to this author.

    Runs no query unless FOUR_EYES is on, otherwise at most one.
    """
    return (
        settings.FOUR_EYES
        and author.user_id is not None
        and not (author.token is None and has_break_glass_access(author.user_id))
    )


def _is_person(author: Author) -> bool:
    """Return whether a person is behind the changes: also behind those of a provisioning service whose token an
    account created. The token of a service can be created by a command.
    """
    return not author.is_provisioner or accounts_of(author) != {author.user_id}


@frozen
class _Content:
    """What a change contains. users, groups: the principals that it changes.

    receiving_users, receiving_groups: the activated or renamed users, and the groups with new members or a new
    name, because their grants take effect for others. changed_groups: groups that get or lose members. counts_hour: also
    count the other changes of the last hour.
    is_written: whether the journal has the lines of this change already.
    """

    count: int
    grants_admin: bool
    namespaces: Collection[str]
    users: Names
    groups: Names
    receiving_users: Names
    receiving_groups: Names
    changed_groups: Names
    counts_hour: bool = True
    is_written: bool = False

    def reasons(self, accounts: Collection[int]) -> list[str]:
        """Return why the change needs a second person, as verbs with objects.

        Runs a fixed number of queries.
        """
        return list(self._reasons(accounts))

    def _reasons(self, accounts: Collection[int]) -> Iterable[str]:
        if self.count > settings.FOUR_EYES_MAX_ITEMS:
            yield f"has more than {settings.FOUR_EYES_MAX_ITEMS:,} items"
        elif self.counts_hour and self._exceeds_hour(accounts):
            yield (
                f"has, together with the other changes of this person in the last hour, more than "
                f"{settings.FOUR_EYES_MAX_ITEMS:,} items"
            )
        if self.grants_admin or self._gives_admin():
            yield "grants ADMIN"
        if name := self._protected_namespace():
            yield f"changes grants in the protected namespace {name}"
        if self._appoints():
            yield "appoints a data steward or an approver"
        if self._concerns(accounts):
            yield "concerns the person who makes it"

    def _exceeds_hour(self, accounts: Collection[int]) -> bool:
        others = recent_change_count(accounts)
        return others + (0 if self.is_written else self.count) > settings.FOUR_EYES_MAX_ITEMS

    def _gives_admin(self) -> bool:
        admin = permission_ids()[Privilege.ADMIN]
        return (
            GroupGrant.objects.filter(group__name__in=self.receiving_groups, permission_id=admin).exists()
            or UserGrant.objects.filter(user__username__in=self.receiving_users, permission_id=admin).exists()
            or GroupGrant.objects.filter(
                group__belongings__user__username__in=self.receiving_users, permission_id=admin
            ).exists()
        )

    def _protected_namespace(self) -> str:
        """Return the name of a protected namespace in which the change adds or removes access; empty if there
        is none.
        """
        if not (protected := set(settings.PROTECTED_NAMESPACES)):
            return ""
        if names := protected.intersection(self.namespaces):
            return min(names)
        # a namespace is in itself, and a grant on a pattern in each one where it can match
        where = Q(namespace__key__in=protected)
        for rows in (
            GroupGrant.held.filter(where, group__name__in=self.changed_groups),
            UserGrant.held.filter(where, user__username__in=self.receiving_users),
            GroupGrant.held.filter(where, group__belongings__user__username__in=self.receiving_users),
        ):
            if name := rows.values_list("namespace__key", flat=True).first():
                return name
        return ""

    def _appoints(self) -> bool:
        groups = Q(name__in=self.receiving_groups) | Q(belongings__user__username__in=self.receiving_users)
        appointed = Q(pk__in=NamespaceApprovers.objects.values("group")) | Q(stewardships__isnull=False)
        return (
            Group.objects.filter(groups, appointed).exists()
            or NamespaceSteward.objects.filter(user__username__in=self.receiving_users).exists()
        )

    def _concerns(self, accounts: Collection[int]) -> bool:
        own = User.objects.filter(pk__in=with_service_accounts(accounts))
        return (
            own.filter(username__in=self.users).exists()
            or Group.objects.filter(belongings__user__in=own, name__in=self.groups).exists()
        )


def _content_of_plan(plan: Plan) -> _Content:
    items = plan.items.order_by()
    namespaces = (
        items.filter(namespace__in=settings.PROTECTED_NAMESPACES)
        .values_list("namespace", flat=True)
        .distinct()
    )
    joins = items.filter(verb=PlanVerb.JOIN).values("group_name")
    on_patterns = pattern_changes(plan)
    return _Content(
        count=items.count() + _matched_count(on_patterns),
        grants_admin=items.filter(
            verb=PlanVerb.GRANT, permission_id=permission_ids()[Privilege.ADMIN]
        ).exists(),
        namespaces={*namespaces, *_protected_by_patterns(on_patterns)}
        if settings.PROTECTED_NAMESPACES
        else (),
        users=items.filter(principal_type="user").values("principal_name"),
        groups=items.filter(principal_type="group").values("principal_name"),
        receiving_users=items.filter(verb=ACTIVATION_VERBS[0]).values("principal_name"),
        receiving_groups=_with_roles(joins).values("name"),
        changed_groups=_with_roles(items.exclude(group_name="").values("group_name")).values("name"),
    )


def _sameness(accounts: Collection[int], makers: Collection[int]) -> str:
    """Return why the account that applies a plan does not belong to a second person."""
    if not set(accounts).isdisjoint(makers):
        return "you made it"
    sentence = "your account and the one that made it count as one person"
    if (line := controlling_line(accounts, makers)) is None:
        return sentence
    return (
        f"{sentence} until {format_time(end_of_control(line))}, because one changed the password, the role or the second "
        f"factor of the other, or invited it ({line.principal})"
    )


def _name(item: Grant | Revoke, kind: str) -> str:
    type_, name = type_and_name(item.principal)
    return name if type_ == kind else ""


def recent_change_count(accounts: Collection[int]) -> int:
    """Return the number of changes of the last hour by the person with these accounts. A grant on a pattern also counts once
    for each registered address that the pattern matches.

    Plans that the person applied count only if the same person made them. Runs four queries, four for
    each other person who made such a plan, and one for each pattern.
    """
    since = timezone.now() - PERIOD
    names = names_of(accounts)
    by_person = Q(actor__in=written_names(names)) | Q(issuer__in=names)
    lines = JournalLine.objects.filter(by_person, at__gte=since, action__in=ACTIONS)
    totals = dict(lines.order_by().values_list("actor").annotate(total=Count("*")))
    if not totals:
        return 0
    of_others = _plans_of_others(accounts, set(totals), since)
    own = max(0, sum(totals.values()) - sum(of_others.values()))
    # more lines than the limit exceed it without what they match
    if own > settings.FOUR_EYES_MAX_ITEMS:
        return own
    return own + _matched_count(_grants_on_patterns(lines, of_others))


def _grants_on_patterns(lines: QuerySet[JournalLine], plans: Collection[str]) -> list[Grant]:
    """Return the grants on patterns of these lines, without those that the plans made. plans: as lines name them."""
    rows = lines.filter(Q(entity__contains="*") | Q(entity__contains="?"), action="grant").order_by()
    return [
        Grant(principal, parse_grantable(entity), Privilege(privilege))
        for principal, entity, privilege, detail in rows.values_list(
            "principal", "entity", "privilege", "detail"
        )
        if parse_detail(detail).rest not in plans
    ]


def _plans_of_others(accounts: Collection[int], actors: set[str], since: datetime) -> dict[str, int]:
    """Return the number of changes in each plan of others that the person applied, by the text of the plan. Two people were
    involved in these changes.
    """
    plans = Plan.objects.filter(state=PlanState.APPLIED, decided_at__gte=since, decided_by__in=actors)
    is_own: dict[tuple, bool] = {}
    counts = {}
    for plan in plans.only("made_by", "maker_ids", "effect").iterator(chunk_size=500):
        maker = plan.made_by, tuple(plan.maker_ids)
        if maker not in is_own:
            makers = makers_of_plan(plan.maker_ids, plan.made_by)
            is_own[maker] = bool(makers) and are_one_person(accounts, makers)
        if not is_own[maker]:
            counts[str(plan)] = sum(plan.effect.get(name, 0) for name in _PLAN_COUNTS)
    return counts
