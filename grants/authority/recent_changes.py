"""Count the changes that one person made alone within the last hour, for the rules of four eyes."""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import Count, Q
from django.utils import timezone

from grants.authority.persons import are_one_person, makers_of_plan, names_of, written_names
from grants.models import JournalLine, Plan, PlanState, User
from grants.roles.capabilities import Capability, roles_with

PERIOD = timedelta(hours=1)
# deactivations and their effect are not counted, so that access can be ended at once
ACTIONS = ("grant", "revoke", "member-add", "member-remove", "user-activate")
# of `Plan.effect`, the counts of changes with these actions
_COUNTS = ("grants", "revokes", "joins", "leaves", "activations")


def recent_change_count(accounts: Collection[int]) -> int:
    """Return the number of changes of the last hour by the person with these accounts.

    Plans that the person applied count only if the same person made them. Runs three queries, and four for
    each other person who made such a plan.
    """
    since = timezone.now() - PERIOD
    names = names_of(accounts)
    # services that only provision users, and that others may have set up with a token of this person, are no
    # administrators
    administrators = User.objects.filter(role__in=roles_with(Capability.CHANGE_GRANTS)).values("username")
    by_person = Q(actor__in=written_names(names)) | Q(issuer__in=names, actor__in=administrators)
    lines = JournalLine.objects.filter(by_person, at__gte=since, action__in=ACTIONS)
    totals = dict(lines.order_by().values_list("actor").annotate(total=Count("*")))
    return max(0, sum(totals.values()) - _changes_for_others(accounts, set(totals), since)) if totals else 0


def _changes_for_others(accounts: Collection[int], actors: set[str], since: datetime) -> int:
    """Return the number of changes in the plans of others that the person applied. Two people were involved
    in these changes."""
    plans = Plan.objects.filter(state=PlanState.APPLIED, decided_at__gte=since, decided_by__in=actors)
    is_own: dict[tuple, bool] = {}
    total = 0
    for made_by, maker_ids, effect in plans.values_list("made_by", "maker_ids", "effect").iterator(
        chunk_size=500
    ):
        maker = made_by, tuple(maker_ids)
        if maker not in is_own:
            makers = makers_of_plan(maker_ids, made_by)
            is_own[maker] = bool(makers) and are_one_person(accounts, makers)
        if not is_own[maker]:
            total += sum(effect.get(name, 0) for name in _COUNTS)
    return total
