"""The second factors and linked identities of accounts: change them with their journal lines.

Also what removing or renaming an account does to its tokens, factors and identities, and these as facts that
`verify_journal` compares with the journal.

INVARIANT: only the owner adds a factor. The owner removes single factors; administrators and commands remove
all of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Count, QuerySet

from authzconsole.models import ApiToken, ProvisionedGroup, ProvisionedUser
from authzconsole.settings.user_directory import LDAP_PROVIDER
from grants.authority.transactions import administrator_transaction, check_can_manage_account
from grants.bulk_rows import stream_rows
from grants.errors import GrantError
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import JournalHead, User
from grants.outcomes import Outcome
from grants.principals.hooks import end_access
from grants.roles.capabilities import Capability
from grants.verification import APP_TITLE, CODES_TITLE, HELD, PASSKEY_PREFIX, Fact, fact_key

FINGERPRINT_CHARACTERS = 16


def factor_title(factor: Authenticator) -> str:
    """Return the name of a factor in the journal."""
    if factor.type == Authenticator.Type.WEBAUTHN:
        return f"{PASSKEY_PREFIX}{factor.wrap().name}"
    return APP_TITLE if factor.type == Authenticator.Type.TOTP else CODES_TITLE


def remove_all_factors(head: JournalHead, author: Author, user: User) -> str:
    """Remove all factors, inside an `administrator_transaction` of the caller. Return their titles."""
    changes = _delete_factors(user)
    if changes:
        append_to_journal(head, changes, author=author)
    return "".join(change.detail for change in changes)


def _delete_factors(user: User) -> list[JournalEntry]:
    factors = Authenticator.objects.filter(user=user)
    titles = ", ".join(sorted(map(factor_title, factors)))
    factors.delete()
    return [JournalEntry("factor-reset", principal=str(user), detail=titles)] if titles else []


@contextmanager
def journalled_factors(author: Author, user: User) -> Iterator[None]:
    """Append a line for each factor of the account that is added or removed inside, in one transaction.

    A factor that is replaced by one of the same title, such as the recovery codes, has one line.
    """
    if author.user_id != user.pk:
        raise GrantError("only the owner of an account can change its factors")
    with transaction.atomic():
        head = lock_journal()
        before = _titles(user)
        yield
        after = _titles(user)
        added = [title for pk, title in after.items() if pk not in before]
        removed = [title for pk, title in before.items() if pk not in after and title not in added]
        changes = [("factor-remove", title) for title in removed] + [("factor-add", title) for title in added]
        append_to_journal(
            head,
            [JournalEntry(action, principal=str(user), detail=title) for action, title in changes],
            author=author,
        )


def _titles(user: User) -> dict[int, str]:
    return {
        factor.pk: factor_title(factor) for factor in Authenticator.objects.filter(user=user).order_by("pk")
    }


def reset_factors(*, author: Author, name: str) -> Outcome:
    """Remove all factors of an account, for example after a phone was lost."""
    with administrator_transaction(author, capability=Capability.MANAGE_ACCOUNTS) as head:
        user = User.objects.filter(username=name).first()
        if user is None:
            raise GrantError(f"user:{name} does not exist")
        check_can_manage_account(author, user)
        titles = remove_all_factors(head, author, user)
        sentence = (
            f"the second factors of {user} were removed: {titles}"
            if titles
            else f"{user} has no second factor: nothing changed"
        )
        return Outcome(bool(titles), sentence, head.revision)


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
        links = SocialAccount.objects.filter(user=user, pk=pk)
        link = links.first()
        if link is None:
            raise LinkError(f"{user} has no such identity")
        _unlink(head, author, user, links)
        return Outcome(
            True, f"{user} is no longer linked to the identity {link.uid} of {link.provider}", head.revision
        )


def unlink_all_identities(head: JournalHead, author: Author, user: User) -> int:
    """Unlink all identities, inside an `administrator_transaction` of the caller. Return their number."""
    return _unlink(head, author, user, SocialAccount.objects.filter(user=user))


def _unlink(head: JournalHead, author: Author, user: User, links: QuerySet[SocialAccount]) -> int:
    changes = _delete_links(user, links)
    if changes:
        append_to_journal(head, [*changes, *end_access([user.pk], with_tokens=False)], author=author)
    return len(changes)


def _delete_links(user: User, links: QuerySet[SocialAccount]) -> list[JournalEntry]:
    changes = [
        JournalEntry("identity-unlink", principal=str(user), detail=link_detail(link))
        for link in links.order_by("pk")
    ]
    links.delete()
    return changes


def name_guard(principal: User | Group, new_name: str, is_provisioner: bool) -> str:
    """Return why the principal must keep its name, cannot get the new name, or cannot be removed (without a new
    name); empty if there is no reason.
    """
    if isinstance(principal, Group):
        if not _mapped_groups().isdisjoint((principal.name, new_name)):
            return "a setting maps groups of a sign-in provider or of the directory to it; change the setting first"
        if not is_provisioner and ProvisionedGroup.objects.filter(group=principal).exists():
            return "a provisioning service manages it; change it there"
        return ""
    if not {principal.username, new_name}.isdisjoint(settings.BREAK_GLASS_ACCOUNTS):
        return "BREAK_GLASS_ACCOUNTS names it; change the setting first"
    if not is_provisioner and ProvisionedUser.objects.filter(user=principal, removed_at=None).exists():
        return "a provisioning service manages it; change it there"
    if new_name and SocialAccount.objects.filter(user=principal, provider=LDAP_PROVIDER).exists():
        return "the directory knows it by this name"
    return ""


def remove_account_data(user: User) -> list[JournalEntry]:
    """Delete the tokens, second factors and identity links of a user. Return the changes for the journal."""
    tokens = ApiToken.objects.filter(owner=user)
    changes = [
        JournalEntry("token-remove", principal=str(user), detail=str(token))
        for token in tokens.order_by("pk")
    ]
    tokens.delete()
    links = SocialAccount.objects.filter(user=user)
    return [*changes, *_delete_factors(user), *_delete_links(user, links)]


def _mapped_groups() -> set[str]:
    return {name for provider in settings.SIGN_IN_PROVIDERS.values() for name in provider.groups.values()}


def facts_of_sign_in() -> Iterator[Fact]:
    """Yield the facts of tokens, second factors and identity links."""
    yield from facts_of_tokens()
    yield from _facts_of_factors()
    links = stream_rows(SocialAccount.objects.all(), "provider", "uid", "user__username")
    for provider, subject, owner in links:
        yield fact_key("identity", provider, subject), f"user:{owner}"


def facts_of_tokens() -> Iterator[Fact]:
    """Yield owner, scopes, expiry, secret, revocation and missing limit of each token."""
    columns = "pk", "owner__username", "scopes", "expires_at", "digest", "revoked_at", "is_unlimited"
    for number, owner, scopes, expires_at, digest, revoked_at, is_unlimited in stream_rows(
        ApiToken.objects.all(), *columns
    ):
        yield (
            fact_key("token", number),
            f"user:{owner}, {scopes.replace(' ', ', ')}, until {expires_at:%Y-%m-%d}",
        )
        yield fact_key("secret", number), digest[:FINGERPRINT_CHARACTERS]
        if revoked_at is not None:
            yield fact_key("revoked", number), "yes"
        if is_unlimited:
            yield fact_key("unlimited", number), "yes"


def _facts_of_factors() -> Iterator[Fact]:
    rows = Authenticator.objects.values_list("user__username", "type").annotate(Count("pk")).order_by()
    for owner, type_, count in rows:
        if type_ == Authenticator.Type.WEBAUTHN:
            yield fact_key("passkeys", f"user:{owner}"), str(count)
        else:
            yield (
                fact_key(
                    "factor", f"user:{owner}", APP_TITLE if type_ == Authenticator.Type.TOTP else CODES_TITLE
                ),
                HELD,
            )
