"""Unlink identities of sign-in providers from accounts, with their journal lines."""

from allauth.socialaccount.models import SocialAccount

from grants.authority.transactions import administrator_transaction, check_can_manage_account
from grants.errors import GrantError
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import JournalHead, User
from grants.outcomes import Outcome
from grants.principals.hooks import end_access
from grants.roles.capabilities import Capability


class LinkError(GrantError):
    """The identity cannot be unlinked; the message says why."""


def link_detail(link: SocialAccount) -> str:
    """Return how journal lines name an identity. `grants.verification.facts` reads it."""
    return f"provider: {link.provider}, subject: {link.uid}"


def unlink_identity(*, author: Author, user: User, pk: int) -> Outcome:
    """Unlink an identity from an account, which ends the sessions of the account.

    The identity can be linked again at a sign-in if the options of its provider allow it.
    """
    with administrator_transaction(author, capability=Capability.MANAGE_ACCOUNTS) as head:
        check_can_manage_account(author, user)
        link = SocialAccount.objects.filter(user=user, pk=pk).first()
        if link is None:
            raise LinkError(f"{user} has no such identity")
        _unlink(head, author, user, [link])
        return Outcome(
            True, f"{user} is no longer linked to the identity {link.uid} of {link.provider}", head.revision
        )


def unlink_all_identities(head: JournalHead, author: Author, user: User) -> int:
    """Unlink all identities, inside an `administrator_transaction` of the caller. Return their number."""
    links = list(SocialAccount.objects.filter(user=user).order_by("pk"))
    if links:
        _unlink(head, author, user, links)
    return len(links)


def _unlink(head: JournalHead, author: Author, user: User, links: list[SocialAccount]) -> None:
    changes = [
        JournalEntry("identity-unlink", principal=str(user), detail=link_detail(link)) for link in links
    ]
    SocialAccount.objects.filter(pk__in=[link.pk for link in links]).delete()
    append_to_journal(head, [*changes, *end_access([user.pk], with_tokens=False)], author=author)
