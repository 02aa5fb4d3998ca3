"""Add users and groups, and change accounts, with their journal lines.

New names are in `renaming`. Changes of permissions, such as memberships and removals, are in
`grants.changes`.

INVARIANT: the console keeps at least one active administrator.
"""

import secrets
from collections.abc import Iterable
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, cast

from django.conf import settings
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX, make_password
from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Substr
from django.utils import timezone

from entities.vocabulary import clip
from grants.authority.transactions import (
    administrator_transaction,
    check_can_manage,
    check_can_manage_account,
    own_access_transaction,
)
from grants.change_set import AddGroup, AddUser
from grants.errors import PrincipalError
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import GROUP, PRINCIPAL_TYPES, USER, JournalHead, JournalLine, Role, User
from grants.outcomes import Outcome
from grants.policies.principals import ROLE_PREFIX, principal_text
from grants.principal_names import control_character_fault, name_fault, parse_principal
from grants.principals.hooks import end_access
from grants.principals.new_names import invisible_character_fault, new_name_fault
from grants.principals.renaming import reused_name_fault
from grants.roles.capabilities import Capability, role_includes

MAX_EMAIL_CHARACTERS = 254
MAX_FULL_NAME_CHARACTERS = 150
PASSWORD_BYTES = 12


def add_user(
    *,
    author: Author,
    name: str,
    email: str = "",
    active: bool = True,
    role: str = Role.ORDINARY,
    is_principal: bool = True,
    is_service: bool = False,
) -> Outcome:
    """Add a user, who cannot sign in until a password is set. An existing account becomes a principal.

    is_service: the account can never sign in; it owns API tokens for a program.
    """
    _check_name("user", name)
    _check_email(email)
    role = _role(role)
    allows_provisioner = role == Role.ORDINARY and not is_service
    with _journal_recorder(
        author, Capability.MANAGE_ACCOUNTS, allows_provisioner=allows_provisioner
    ) as record:
        check_can_manage(author, role)
        user = User.objects.filter(username=name).first()
        if user is not None:
            return _existing_user(record, user, is_principal)
        _check_new_name(author, "user", name)
        User.objects.create(
            username=name,
            email=email,
            is_active=active,
            role=role,
            is_principal=is_principal,
            is_service=is_service,
            password=make_password(None),
        )
        detail = ", ".join(
            filter(
                None,
                [
                    "" if active else "inactive",
                    "" if role == Role.ORDINARY else f"role: {role}",
                    "service account" if is_service else "",
                ],
            )
        )
        return record(
            JournalEntry("user-add", principal=f"user:{name}", detail=detail), f"user:{name} was added"
        )


def set_user_email(*, author: Author, name: str, email: str) -> Outcome:
    """Change the email of a user. An empty string removes it."""
    _check_email(email)
    with _journal_recorder(author, Capability.MANAGE_ACCOUNTS, allows_provisioner=True) as record:
        user = managed_user(author, name)
        if user.email == email:
            return record(None, f"{user} has that email already: nothing changed")
        User.objects.filter(pk=user.pk).update(email=email)
        return record(
            JournalEntry("user-change", principal=str(user), detail=f"email: {email}"),
            f"the email of {user} is changed",
        )


def set_full_name(*, author: Author, name: str, full_name: str) -> Outcome:
    """Change the full name of a user. An empty string removes it."""
    full_name = " ".join(full_name.split())
    if len(full_name) > MAX_FULL_NAME_CHARACTERS:
        raise PrincipalError(
            f"the full name has {len(full_name):,} characters; {MAX_FULL_NAME_CHARACTERS} are allowed"
        )
    if fault := control_character_fault("the full name", full_name) or invisible_character_fault(full_name):
        raise PrincipalError(fault)
    with _journal_recorder(author, Capability.MANAGE_ACCOUNTS, allows_provisioner=True) as record:
        user = managed_user(author, name)
        if user.get_full_name() == full_name:
            return record(None, f"{user} has that full name already: nothing changed")
        first_name, _, last_name = full_name.rpartition(" ")
        User.objects.filter(pk=user.pk).update(first_name=first_name, last_name=last_name)
        return record(
            JournalEntry("user-change", principal=str(user), detail=f"full name: {full_name}"),
            f"the full name of {user} is changed",
        )


def set_user_role(*, author: Author, name: str, role: str) -> Outcome:
    """Change the console role of an account. The role grants no access to data.

    With a role that can do more, a password that another person set ends: this person may not be allowed to manage the account
    any more.
    """
    role = _role(role)
    with _journal_recorder(author, Capability.MANAGE_ACCOUNTS) as record:
        user = managed_user(author, name)
        check_can_manage(author, role)
        if user.role == role:
            return record(None, f"{user} has the role {role.label} already: nothing changed")
        if role != Role.ADMINISTRATOR:
            check_another_administrator(user)
        values: dict[str, Any] = {"role": role}
        note = ""
        if user.must_change_password and not role_includes(user.role, role):
            values |= {
                "password": make_password(None),
                "must_change_password": False,
                "password_expires_at": None,
            }
            note = "; its first password no longer works, because another person knows it: set or send another one"
        User.objects.filter(pk=user.pk).update(**values)
        change = JournalEntry("role-set", principal=str(user), detail=f"from {user.role} to {role}")
        return record(change, f"{user} has the role {role.label} now; it was {Role(user.role).label}{note}")


def renew_user_password(*, author: Author, name: str) -> str:
    """Set a generated password and return it; only its hash is stored. The sessions of the user end.

    Two people know the password now, so the user must change it at the next sign-in, and within
    FIRST_PASSWORD_HOURS.
    """
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    # Hashing takes a large part of a second, so it is done before the journal is locked.
    hashed = make_password(password)
    with _journal_recorder(author, Capability.MANAGE_ACCOUNTS) as record:
        user = managed_user(author, name)
        if user.is_service:
            raise PrincipalError(
                f"{user} is a service account: it uses API tokens and cannot have a password"
            )
        User.objects.filter(pk=user.pk).update(
            password=hashed, must_change_password=True, password_expires_at=first_password_end()
        )
        record(
            JournalEntry("password-set", principal=str(user)),
            f"{user} has a new password",
            *end_access([user.pk], with_tokens=False),
        )
    return password


def begin_invitation(*, author: Author, name: str) -> User:
    """Let a user who has no password choose the first one, with a link that depends on the stored password. Return the user.

    Earlier links stop working. An account with a password cannot be invited, so that a link never replaces what a
    person knows.
    """
    hashed = make_password(None)
    with _journal_recorder(author, Capability.MANAGE_ACCOUNTS) as record:
        user = managed_user(author, name)
        if user.is_service:
            raise PrincipalError(
                f"{user} is a service account, which never signs in: create an API token instead"
            )
        if not user.is_active:
            raise PrincipalError(f"{user} is inactive: activate it first")
        if user.has_usable_password():
            raise PrincipalError(f"{user} has a password already: replace it instead")
        User.objects.filter(pk=user.pk).update(password=hashed)
        record(JournalEntry("user-invite", principal=str(user)), f"{user} is invited")
    user.password = hashed
    return user


# the journal lines of which each ends the earlier links of the same name
_LINK_LINES = ("user-invite", "user-invite-cancel", "user-add")


def open_invitations() -> QuerySet[JournalLine]:
    """Return the journal line of the newest invitation of each user who can still use its link.

    A user who was renamed since then is not found.
    """
    newer = JournalLine.objects.filter(
        principal=OuterRef("principal"),
        revision__gt=OuterRef("revision"),
        # a link depends on the role and the stewardships of the user
        action__in=(*_LINK_LINES, "role-set", "steward-add", "steward-remove"),
    )
    invited = User.objects.filter(
        username=Substr(OuterRef("principal"), len("user:") + 1),
        is_active=True,
        password__startswith=UNUSABLE_PASSWORD_PREFIX,
    )
    return JournalLine.objects.filter(
        ~Exists(newer), Exists(invited), action="user-invite", at__gt=_oldest_link()
    )


def _oldest_link() -> datetime:
    """Return the time since which a link was made that has not expired."""
    return timezone.now() - timedelta(hours=settings.FIRST_PASSWORD_HOURS)


def cancel_invitation(*, author: Author, name: str) -> Outcome:
    """Let earlier links of a user who has no password stop working, also those of an earlier name, and those that work again
    because the role or the stewardships of the user are as before.
    """
    hashed = make_password(None)
    with _journal_recorder(author, Capability.MANAGE_ACCOUNTS) as record:
        user = managed_user(author, name)
        names, lines = [str(user)], JournalLine.objects.filter(at__gt=_oldest_link()).order_by("-revision")
        renames = lines.filter(action="user-rename")
        for known in names:
            names += (
                renames.filter(detail=known).exclude(principal__in=names).values_list("principal", flat=True)
            )
        last = lines.filter(principal__in=names, action__in=_LINK_LINES).first()
        if user.has_usable_password() or last is None or last.action != "user-invite":
            return record(None, f"no invitation of {user} is open: nothing changed")
        User.objects.filter(pk=user.pk).update(password=hashed)
        entry = JournalEntry("user-invite-cancel", principal=str(user))
        return record(entry, f"the invitation of {user} is cancelled")


def accept_invitation(*, author: Author, user: User, password: str) -> bool:
    """Set the first password of an invited user. Return False if its link was used, or ended, in the meantime.

    author: the user. user: as read when the link was verified.
    """
    hashed = make_password(password)
    with own_access_transaction(author) as (head, _):
        is_set = (
            User.objects.filter(
                pk=user.pk, password=user.password, role=user.role, is_active=True, is_service=False
            )
        ).update(password=hashed, must_change_password=False, password_expires_at=None)
        if is_set:
            entry = JournalEntry("password-set", principal=str(user), detail="with an invitation")
            append_to_journal(head, [entry], author=author)
    return bool(is_set)


def first_password_end() -> datetime:
    """Return the time at which a password that another person sets now expires.

    A password that the user sets does not expire.
    """
    return timezone.now() + timedelta(hours=settings.FIRST_PASSWORD_HOURS)


def add_group(*, author: Author, name: str) -> Outcome:
    """Add an empty group."""
    if name.startswith(ROLE_PREFIX):
        raise PrincipalError(f"invalid group name: `{clip(name)}` is the written form of a role")
    return _add_group(author, name)


def add_role(*, author: Author, name: str) -> Outcome:
    """Add an empty role. name: without `role:`."""
    return _add_group(author, f"{ROLE_PREFIX}{name}")


def _add_group(author: Author, name: str) -> Outcome:
    _check_name("group", name)
    with administrator_transaction(author, allows_provisioner=True) as head:
        return write_new_principal(head, author, AddGroup(name))


def write_new_principal(
    head: JournalHead, author: Author, change: AddUser | AddGroup, *, detail: str = ""
) -> Outcome:
    """Add a user who cannot sign in until a password is set, or an empty group, with a valid name. detail: of the
    journal line.
    """
    type_name, name = parse_principal(str(change))
    if PRINCIPAL_TYPES[type_name].find(name) is not None:
        sentence = f"{change} already exists: nothing changed"
        return Outcome(False, sentence, head.revision, unchanged=(sentence,))
    _check_new_name(author, type_name, name)
    if isinstance(change, AddUser):
        User.objects.create(username=name, password=make_password(None))
    else:
        Group.objects.create(name=name)
    entry = JournalEntry(f"{type_name}-add", principal=str(change), detail=detail)
    append_to_journal(head, [entry], author=author)
    return Outcome(True, f"{change} was added", head.revision, (change,))


@contextmanager
def _journal_recorder(
    author: Author, capability: Capability = Capability.CHANGE_GRANTS, *, allows_provisioner: bool = False
):
    """Open an `administrator_transaction` and yield a function `record(change, sentence, *more_changes) ->
    Outcome`.

    The function writes the changes to the journal; None means that nothing changed.
    """
    with administrator_transaction(
        author, allows_provisioner=allows_provisioner, capability=capability
    ) as head:
        yield lambda change, sentence, *more_changes: _record(head, author, change, sentence, more_changes)


def _record(
    head: JournalHead,
    author: Author,
    change: JournalEntry | None,
    sentence: str,
    more_changes: Iterable[JournalEntry] = (),
) -> Outcome:
    if change is not None:
        append_to_journal(head, [change, *more_changes], author=author)
    return Outcome(change is not None, sentence, head.revision)


def _existing_user(record, user: User, is_principal: bool) -> Outcome:
    if not is_principal or user.is_principal:
        return record(None, f"{user} already exists: nothing changed")
    User.objects.filter(pk=user.pk).update(is_principal=True)
    return record(
        JournalEntry("principal-add", principal=str(user)),
        f"{user} was an account of the console; it is a principal now",
    )


def check_another_administrator(user: User) -> None:
    """Raise PrincipalError if the user is the only active administrator."""
    others = User.objects.filter(role=Role.ADMINISTRATOR, is_active=True).exclude(pk=user.pk)
    if user.can_administer and not others.exists():
        raise PrincipalError(
            f"{user} is the only active administrator of this console: add another administrator first"
        )


def user_by_name(name: str) -> User:
    """Return the user. Raise PrincipalError if there is none."""
    return cast("User", principal_by_name(USER.name, name))


def group_by_name(name: str) -> Group:
    """Return the group. Raise PrincipalError if there is none."""
    return cast("Group", principal_by_name(GROUP.name, name))


def principal_by_name(principal_type: str, name: str) -> User | Group:
    """Return the principal. Raise PrincipalError if there is none."""
    principal = PRINCIPAL_TYPES[principal_type].find(name)
    if principal is None:
        raise PrincipalError(
            f"{principal_text(principal_type, clip(name))} does not exist: add it first, or correct the name",
            field=principal_type,
        )
    return principal


def managed_user(author: Author, name: str) -> User:
    """Return the user.

    Raise NotAdministrator if the author's role does not include the role of the account.
    """
    user = user_by_name(name)
    check_can_manage_account(author, user)
    return user


def _check_name(principal_type: str, name: str) -> None:
    if fault := name_fault(name):
        raise PrincipalError(f"invalid {principal_type} name: {fault}")


def _check_new_name(author: Author, principal_type: str, name: str) -> None:
    """Raise PrincipalError for a name that cannot be added. The name of a principal that was removed can."""
    if fault := new_name_fault(principal_type, name) or reused_name_fault(
        author, principal_text(principal_type, name), allows_removed=True
    ):
        raise PrincipalError(f"invalid {principal_type} name: {fault}")


def email_fault(email: str) -> str:
    """Return why a user cannot have this email; empty if it can."""
    if len(email) > MAX_EMAIL_CHARACTERS:
        return f"the email has {len(email):,} characters; {MAX_EMAIL_CHARACTERS} are allowed"
    return control_character_fault("the email", email)


def _check_email(email: str) -> None:
    if fault := email_fault(email):
        raise PrincipalError(fault)


def _role(role: str) -> Role:
    if role not in Role.values:
        raise PrincipalError(f"`{clip(role)}` is not a role; the roles are {', '.join(Role.values)}")
    return Role(role)
