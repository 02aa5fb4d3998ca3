"""Give back one's own access: a direct grant, or a membership in a group.

INVARIANT: an account can only end its own access, and no entity is stranded by it. It learns nothing about access that it
does not hold.
"""

from django.contrib.auth.models import Group

from entities.selectors import entity_at
from entities.vocabulary import Privilege
from grants.authority.transactions import own_access_transaction
from grants.change_set import Leave, Revoke
from grants.changes.services import write_changes
from grants.errors import GrantError, NotAdministrator
from grants.guardrails.check import make_within_guardrails
from grants.journal import Author
from grants.models import User
from grants.outcomes import Outcome
from grants.principals.administrator_loss import loss_if_member_removed, loss_if_revoked

GIVEN_BACK = "given back"


def give_back(*, author: Author, change: Revoke | Leave) -> Outcome:
    """Revoke a direct grant of the author, or end its membership.

    Raise NotAdministrator if the account is not active, or the access is that of somebody else; GrantError if an entity
    would be left with fewer than two ADMIN holders.
    """
    with own_access_transaction(author) as (head, account):
        owner = change.principal if isinstance(change, Revoke) else f"user:{change.user}"
        if owner != str(account):
            raise NotAdministrator("you can give back your own access only")
        if isinstance(change, Leave) and not account.groups.filter(name=change.group).exists():
            # the same for a group that does not exist, because the account may not list the names of groups
            return Outcome(False, f"{change} does not exist: nothing changed", head.revision)
        if _strands(account, change):
            raise GrantError(
                "an entity would be left with fewer than two ADMIN holders: ask an administrator to hand it over first"
            )
        outcome, _ = make_within_guardrails(
            head, author, [change], lambda: write_changes(head, author, [change], detail=GIVEN_BACK)
        )
        return outcome


def _strands(account: User, change: Revoke | Leave) -> bool:
    if isinstance(change, Leave):
        group = Group.objects.filter(name=change.group).first()
        return group is not None and bool(loss_if_member_removed(account, group).total)
    entity = entity_at(change.address) if change.privilege == Privilege.ADMIN else None
    return entity is not None and bool(loss_if_revoked(account, entity).total)
