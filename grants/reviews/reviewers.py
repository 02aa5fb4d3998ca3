"""Who reviews: the members of groups, and the managers of users."""

from collections.abc import Collection, Mapping

from django.contrib.auth.models import Group
from django.db.models import Q

from grants.authority.transactions import administrator_transaction
from grants.errors import PrincipalError
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import User
from grants.models.reviews import SOURCES_OF_GROUPS, UserManagerLink
from grants.outcomes import Outcome
from grants.policies.principals import group_text
from grants.principal_names import principals_by_name
from grants.querysets import belongings
from grants.reviews.errors import ReviewError
from grants.validity import in_force_condition

MAX_REVIEWERS = 200


def reviewer_condition(path: str = "") -> Q:
    """Return the condition that a user can review: an active account of a person."""
    return Q(**{f"{path}is_active": True, f"{path}is_service": False})


def reviewers_of_group(name: str, *, field: str) -> list[int]:
    """Return the primary keys of the members who can review.

    Raise ReviewError if there are none, or more than MAX_REVIEWERS.
    """
    if not Group.objects.filter(name=name).exists():
        raise ReviewError(f"{group_text(name)} does not exist: correct the name", field=field)
    members = (
        belongings()
        .filter(reviewer_condition("user__"), in_force_condition(), group__name=name)
        .order_by("user_id")
    )
    users = list(members.values_list("user_id", flat=True).distinct()[: MAX_REVIEWERS + 1])
    if not users:
        raise ReviewError(
            f"{group_text(name)} has no active members who could review: name another group", field=field
        )
    if len(users) > MAX_REVIEWERS:
        raise ReviewError(
            f"{group_text(name)} has more than {MAX_REVIEWERS} members: name a smaller group", field=field
        )
    return users


def concern_condition(user: User, accounts: Collection[int] = ()) -> Q:
    """Return the condition that an item is about the access of this user, who may not review it.

    Such items are the grants and memberships of the user, and those of the user's groups. accounts: the
    keys of other accounts of the same person, such as the creator of the API token of a service account.
    """
    accounts = {user.pk, *accounts}
    groups = belongings().filter(user__in=accounts).order_by().values("group_id")
    is_of_group = Q(source__in=SOURCES_OF_GROUPS)
    return ~is_of_group & Q(principal_id__in=accounts) | is_of_group & Q(principal_id__in=groups)


def set_manager(*, author: Author, name: str, manager: str) -> Outcome:
    """Set the manager of a user, both by name. An empty string removes the manager."""
    with administrator_transaction(author, allows_provisioner=True) as head:
        users: Mapping = principals_by_name(
            filter(None, (f"user:{name}", f"user:{manager}" if manager else ""))
        )
        for missing in (text for text in (name, manager) if text and f"user:{text}" not in users):
            raise PrincipalError(f"user:{missing} does not exist: correct the name", field="user")
        user, new = users[f"user:{name}"], users.get(f"user:{manager}")
        if new == user:
            raise PrincipalError(f"{user} cannot be their own manager: name another user", field="manager")
        if new is not None and new.is_service:
            raise PrincipalError(
                f"{new} is a service account, which cannot review: name a person", field="manager"
            )
        link = UserManagerLink.objects.filter(user=user).first()
        if (link.manager_id if link else None) == (new.pk if new else None):
            return Outcome(
                False,
                f"{user} has this manager already: nothing changed"
                if new
                else f"{user} has no manager: nothing changed",
                head.revision,
            )
        UserManagerLink.objects.filter(user=user).delete()
        if new:
            UserManagerLink.objects.create(user=user, manager=new)
        change = JournalEntry("user-change", principal=str(user), detail=f"manager: {new or 'none'}")
        revision = append_to_journal(head, [change], author=author)
        return Outcome(
            True, f"the manager of {user} is {new} now" if new else f"{user} has no manager now", revision
        )


def end_management(user: User) -> list[JournalEntry]:
    """Remove the manager of a user who leaves, and the user as the manager of others. Return the changes for the
    journal.
    """
    links = UserManagerLink.objects.filter(Q(user=user) | Q(manager=user))
    names = list(links.order_by("user__username").values_list("user__username", flat=True))
    links.delete()
    return [JournalEntry("user-change", principal=f"user:{name}", detail="manager: none") for name in names]
