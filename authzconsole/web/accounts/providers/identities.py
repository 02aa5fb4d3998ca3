"""Choose the account of an identity that a sign-in provider confirmed, and apply the mapped console role and
groups.

INVARIANT: a linked account is found by provider and subject, never by its name. An existing account is linked
only if the options of the provider allow it. Otherwise, a user who can choose a name at the provider could
sign in as `admin`.
INVARIANT: signing in never makes an account a principal. Groups are only mapped for accounts that are
principals.
"""

import logging
from collections.abc import Mapping

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db import transaction
from django.http import HttpRequest

from authzconsole.common.sign_in_methods import link_detail
from authzconsole.settings.sign_in import ROLES, ProviderOptions
from entities.frozen import frozen
from entities.vocabulary import clip
from grants.authority.transactions import administrator_transaction
from grants.change_set import Join, Leave
from grants.changes import ChangeSet, apply
from grants.errors import GrantError
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import Role, User
from grants.principal_names import name_fault
from grants.principals.services import (
    MAX_EMAIL_CHARACTERS,
    add_user,
    set_user_role,
)
from grants.querysets import memberships
from grants.validity import in_force_condition

logger = logging.getLogger(__name__)

AUTHOR_NAME = "sign-in"


class SignInRefused(Exception):
    """The provider confirmed the identity, but the user may not sign in.

    The message is a sentence for the user.
    """


@frozen
class Identity:
    """A user as the provider describes it. subject: the identifier that the provider never assigns to another
    user.
    """

    provider: str
    subject: str
    claims: Mapping[str, object]

    @property
    def options(self) -> ProviderOptions:
        return settings.SIGN_IN_PROVIDERS[self.provider]

    def values(self, claim: str) -> list[str]:
        """Return the texts of a claim; an empty list if it is missing.

        A dot selects a member of an object.
        """
        value: object = self.claims.get(claim)
        if value is None:
            value = self.claims
            for part in claim.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
        return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]

    def name(self) -> str:
        return next(iter(self.values(self.options.name_claim)), "")

    def email(self) -> str:
        """Return the e-mail address; empty if it is missing, too long or not verified."""
        address = next(iter(self.values("email")), "")
        is_valid = (
            "@" in address
            and len(address) <= MAX_EMAIL_CHARACTERS
            and not name_fault(address.partition("@")[0])
        )
        return address if is_valid and self.claims.get("email_verified") is not False else ""

    def role(self) -> str | None:
        """Return the highest mapped console role; None if the provider does not manage roles."""
        if not self.options.role_claim:
            return None
        mapped = {
            self.options.roles.get(value, Role.ORDINARY) for value in self.values(self.options.role_claim)
        }
        return max(mapped, key=ROLES.index, default=Role.ORDINARY)

    def groups(self) -> set[str]:
        """Return the names of the groups to which the claims are mapped."""
        return {
            self.options.groups[value]
            for value in self.values(self.options.group_claim)
            if value in self.options.groups
        }


def sign_in_account(request: HttpRequest, identity: Identity) -> SocialAccount:
    """Return the linked account of an identity after updating its role and groups. Raise SignInRefused if it
    may not sign in.

    Locks the journal only if something changes. The changes are written by the author `sign-in`.
    """
    author = Author(
        AUTHOR_NAME,
        reason=f"sign-in through {identity.options.name} ({identity.provider})",
        request_id=request.id,
        caller_request_id=request.caller_id,
    )
    link = _link(identity)
    try:
        if link is None:
            with transaction.atomic():
                # two first sign-ins at the same time: the second waits here and then finds the link of the
                # first
                lock_journal()
                link = _link(identity) or _new_link(author, identity)
                _check_account(link.user)
        _check_account(link.user)
        _apply_role(author, identity, link.user)
        if link.user.is_principal:
            _apply_groups(author, identity, link.user)
    except GrantError as error:
        raise SignInRefused(f"The console could not apply your role or groups: {error}.") from error
    link.user.refresh_from_db()
    return link


def _link(identity: Identity) -> SocialAccount | None:
    return (
        SocialAccount.objects.select_related("user")
        .filter(provider=identity.provider, uid=identity.subject)
        .first()
    )


def _check_account(user: User) -> None:
    if user.is_service:
        raise SignInRefused("This name belongs to a service account, which cannot sign in.")
    if not user.is_active:
        raise SignInRefused("This account is inactive. A console administrator can activate it.")


def _new_link(author: Author, identity: Identity) -> SocialAccount:
    """Link the account with the name of the identity, or a new account, to the identity."""
    name, options = identity.name(), identity.options
    if fault := name_fault(name):
        raise SignInRefused(
            f"{options.name} did not send a valid user name in the claim `{options.name_claim}`: {fault}."
        )
    user = User.objects.filter(username=name).first()
    if user is not None:
        _check_link_allowed(identity, user)
    elif options.unknown_users != "create":
        raise SignInRefused(
            f"There is no account `{clip(name)}` in this console. Ask a console administrator to add it."
        )
    elif User.objects.filter(username__iexact=name).exists():
        raise SignInRefused(
            f"The name `{clip(name)}` differs only in upper and lower case from an existing one."
        )
    else:
        add_user(
            author=author,
            name=name,
            email=identity.email(),
            role=identity.role() or Role.ORDINARY,
            is_principal=False,
        )
        user = User.objects.get(username=name)
    with administrator_transaction(author) as head:
        link = SocialAccount.objects.create(user=user, provider=identity.provider, uid=identity.subject)
        append_to_journal(
            head,
            [JournalEntry("identity-link", principal=str(user), detail=link_detail(link))],
            author=author,
        )
    return link


def _check_link_allowed(identity: Identity, user: User) -> None:
    _check_account(user)
    may_link = identity.options.link_existing
    is_linked = SocialAccount.objects.filter(user=user, provider=identity.provider).exists()
    is_break_glass = user.username in settings.BREAK_GLASS_ACCOUNTS
    if (
        is_break_glass
        or is_linked
        or may_link == "never"
        or (may_link == "without-password" and user.has_usable_password())
    ):
        raise SignInRefused(
            f"The account `{clip(user.username)}` exists, and it is not linked to your identity at "
            f"{identity.options.name}. Ask a console administrator."
        )


def _apply_role(author: Author, identity: Identity, user: User) -> None:
    role = identity.role()
    if role is not None and role != user.role:
        set_user_role(author=author, name=user.username, role=role)


def _apply_groups(author: Author, identity: Identity, user: User) -> None:
    """Add the user to the mapped groups, and remove it from mapped groups that are no longer claimed."""
    managed = set(identity.options.groups.values())
    # a membership that is not in force is added again, without limits
    in_force = memberships().filter(in_force_condition(), user=user, group__name__in=managed)
    current = set(in_force.values_list("group__name", flat=True)) if managed else set()
    for name in sorted(identity.groups() - current):
        try:
            apply(ChangeSet.of(Join(user.username, name)), author=author)
        except GrantError as error:
            logger.warning("sign-in through %s: %s", identity.provider, error)
    for name in sorted(current - identity.groups()):
        apply(ChangeSet.of(Leave(user.username, name)), author=author)
