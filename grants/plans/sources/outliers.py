"""Create plans that take away selected privileges: rows of the analysis `outliers`, and violations of a guardrail."""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter

from django.contrib.auth.models import Group
from django.db.models import Count

from entities.address import Address
from entities.frozen import frozen
from entities.vocabulary import Privilege, clip, quantity
from grants.change_set import Leave, Revoke
from grants.changes import existing_grants
from grants.errors import PlanError
from grants.models import GroupGrant
from grants.plans.create import PlanDraft, PlanOrigin, plan_source
from grants.plans.sources.redundant import has_other_purpose
from grants.policies.principals import group_text, type_and_name
from grants.querysets import active_principal_condition, memberships
from grants.stored_changes import ENTITY_COLUMNS
from grants.validity import in_force, not_over_condition, question_time

MAX_GROUPS_NAMED = 5


@frozen
class _Membership:
    """A membership that gives selected privileges. is_ended: the plan ends it, because it gives nothing else."""

    user: str
    group: str
    given: frozenset[Revoke]
    is_ended: bool


@plan_source(PlanOrigin.OUTLIERS)
def outlier_plan(privileges: Sequence[Revoke]) -> PlanDraft:
    """Return a plan that takes these privileges away from users: it revokes the direct grants, and ends a membership
    through which the user gets these privileges only. Memberships in groups that have another purpose remain.

    Other privileges remain; the note of the plan counts them, and names the groups of such memberships. The plan becomes stale with a grant to or a revocation from a group that a user leaves.
    Raise PlanError if none is selected, or if the plan would change nothing.
    """
    if not privileges:
        raise PlanError("no privilege is selected")
    if other := next((row.principal for row in privileges if not row.principal.startswith("user:")), None):
        raise PlanError(f"{clip(other)} is not a user: select privileges of users")
    selected = sorted(set(privileges), key=attrgetter("sort_key"))
    direct = existing_grants(selected)
    memberships = list(_memberships(selected))
    left = [row for row in memberships if row.is_ended]
    given = frozenset[Revoke]().union(*(row.given for row in memberships))
    others = sum(1 for row in selected if row.key not in direct and row not in given)
    note = _note([row for row in memberships if not row.is_ended], others)
    return PlanDraft(
        title=f"Take away {quantity(len(selected), 'privilege', 'privileges')}",
        changes=[
            *(row for row in selected if row.key in direct),
            *(Leave(row.user, row.group) for row in left),
        ],
        recipe={"note": note} if note else {},
        watches=sorted({group_text(row.group) for row in left}),
        empty_message=note,
    )


def _memberships(selected: Collection[Revoke]) -> Iterator[_Membership]:
    """Yield the memberships in force that give selected privileges, by user and group. Runs three queries."""
    wanted = {row.key: row for row in selected}
    users = {row.principal.removeprefix("user:") for row in selected}
    members = memberships().filter(
        active_principal_condition("user__"), user__username__among=list(users), **in_force()
    )
    grants = GroupGrant.held.filter(not_over_condition(question_time()))
    on_selected = grants.filter(
        group__in=members.values("group"),
        content_object__kind__in={row.address.kind for row in selected},
        content_object__key__among=list({row.address.key for row in selected}),
    ).order_by("group__name", *ENTITY_COLUMNS, "permission_id")
    given: dict[str, set[tuple[Address, Privilege]]] = {
        type_and_name(group)[1]: {(address, privilege) for _, address, privilege in rows}
        for group, rows in groupby(on_selected.grant_keys(), key=itemgetter(0))
    }
    of_groups = {"group__name__among": list(given)}
    totals = dict(grants.filter(**of_groups).order_by().values_list("group__name").annotate(Count("pk")))
    has_purpose = set(
        Group.objects.filter(has_other_purpose(""), name__among=list(given)).values_list("name", flat=True)
    )
    pairs = members.filter(**of_groups).order_by("user__username", "group__name")
    for user, group in pairs.values_list("user__username", "group__name"):
        rows = frozenset(wanted[key] for pair in given[group] if (key := (f"user:{user}", *pair)) in wanted)
        if rows:
            is_ended = len(rows) == totals[group] and group not in has_purpose
            yield _Membership(user, group, rows, is_ended)


def _note(kept: Sequence[_Membership], others: int) -> str:
    """Return what the plan does not take away, and through which groups; empty if it takes away everything.

    others: how many privileges neither a direct grant nor a membership gives.
    """
    sentences = [_note_on_groups(kept)] if kept else []
    if others:
        come = quantity(others, "privilege comes", "privileges come")
        sentences.append(
            f"{come} from a grant on a pattern or from a role of a group, or {'is' if others == 1 else 'are'} not held any more. Revoke "
            "the grant on the pattern, or take the group out of the role."
        )
    return " ".join(sentences)


def _note_on_groups(kept: Sequence[_Membership]) -> str:
    total = len({privilege for row in kept for privilege in row.given})
    groups = sorted({row.group for row in kept})
    names = ", ".join(group_text(clip(name)) for name in groups[:MAX_GROUPS_NAMED])
    more = f" and {len(groups) - MAX_GROUPS_NAMED:,} more" if len(groups) > MAX_GROUPS_NAMED else ""
    return (
        f"{quantity(total, 'privilege remains', 'privileges remain')} through groups that give or are for something else too: "
        f"{names}{more}. Change the grants of the group, or remove the user from it on the user's page."
    )
