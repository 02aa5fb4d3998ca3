"""Add and change users, groups and memberships, with their journal lines.

New names and removals are in `renaming` and `removal`.

INVARIANT: the console keeps at least one active administrator.
"""

import secrets
from collections.abc import Iterable
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group
from django.utils import timezone

from entities.text import storage_fault
from entities.vocabulary import clip
from grants.changes.authority import administrator_transaction, check_can_manage, check_can_manage_account
from grants.changes.four_eyes import check_direct_change
from grants.changes.outcomes import Outcome
from grants.errors import PrincipalError
from grants.journal import Author, Change, append_to_journal
from grants.journal_details import period_detail
from grants.models import JournalHead, Role, User
from grants.principal_names import control_character_fault, name_fault
from grants.principals.access_ending import end_access
from grants.principals.new_names import invisible_character_fault, new_name_fault
from grants.querysets import memberships
from grants.roles.capabilities import Capability
from grants.validity import VALIDITY_COLUMNS, Validity

MAX_EMAIL_CHARACTERS = 254
MAX_FULL_NAME_CHARACTERS = 150
PASSWORD_BYTES = 12
NO_LIMITS = Validity()


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
        _check_new_name("user", name)
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
        return record(Change("user-add", principal=f"user:{name}", detail=detail), f"user:{name} was added")


def make_principal(*, author: Author, name: str) -> Outcome:
    """Make an account of the console a principal, which can be granted privileges."""
    with _journal_recorder(author, Capability.MANAGE_ACCOUNTS) as record:
        user = _managed_user(author, name)
        if user.is_principal:
            return record(None, f"{user} is a principal already: nothing changed")
        return _become_principal(record, user)


def set_user_active(*, author: Author, name: str, active: bool) -> Outcome:
    """Activate or deactivate a user.

    An inactive user cannot sign in and is denied everything. The tokens are revoked and the sessions end. The
    grants and memberships remain, and apply again after activation.
    """
    with administrator_transaction(
        author, allows_provisioner=True, capability=Capability.MANAGE_ACCOUNTS
    ) as head:
        outcome = write_user_active(head, author, name=name, active=active)
        if active and outcome.has_changed:
            check_direct_change(author, activated=[name], is_written=True)
        return outcome


def write_user_active(
    head: JournalHead, author: Author, *, name: str, active: bool, detail: str = ""
) -> Outcome:
    """Activate or deactivate a user like `set_user_active`, inside an `administrator_transaction` of the
    caller.

    detail: the detail of the journal line.
    """
    user = _managed_user(author, name)
    word = "active" if active else "inactive"
    if user.is_active == active:
        return _record(head, author, None, f"{user} is {word} already: nothing changed")
    if not active:
        _check_another_administrator(user)
    User.objects.filter(pk=user.pk).update(is_active=active)
    change = Change("user-activate" if active else "user-deactivate", principal=str(user), detail=detail)
    # also at activation, because version 1.0 did not end tokens and sessions at deactivation
    return _record(head, author, change, f"{user} is {word} now", end_access([user.pk]))


def set_user_email(*, author: Author, name: str, email: str) -> Outcome:
    """Change the email of a user. An empty string removes it."""
    _check_email(email)
    with _journal_recorder(author, Capability.MANAGE_ACCOUNTS, allows_provisioner=True) as record:
        user = _managed_user(author, name)
        if user.email == email:
            return record(None, f"{user} has that email already: nothing changed")
        User.objects.filter(pk=user.pk).update(email=email)
        return record(
            Change("user-change", principal=str(user), detail=f"email: {email}"),
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
        user = _managed_user(author, name)
        if user.get_full_name() == full_name:
            return record(None, f"{user} has that full name already: nothing changed")
        first_name, _, last_name = full_name.rpartition(" ")
        User.objects.filter(pk=user.pk).update(first_name=first_name, last_name=last_name)
        return record(
            Change("user-change", principal=str(user), detail=f"full name: {full_name}"),
            f"the full name of {user} is changed",
        )


def set_user_role(*, author: Author, name: str, role: str) -> Outcome:
    """Change the console role of an account. The role grants no access to data."""
    role = _role(role)
    with _journal_recorder(author, Capability.MANAGE_ACCOUNTS) as record:
        user = _managed_user(author, name)
        check_can_manage(author, role)
        if user.role == role:
            return record(None, f"{user} has the role {role} already: nothing changed")
        if role != Role.ADMINISTRATOR:
            _check_another_administrator(user)
        User.objects.filter(pk=user.pk).update(role=role)
        change = Change("role-set", principal=str(user), detail=f"from {user.role} to {role}")
        return record(change, f"{user} has the role {role} now; it was {user.role}")


def renew_user_password(*, author: Author, name: str) -> str:
    """Set a generated password and return it; only its hash is stored. The sessions of the user end.

    Two people know the password now, so the user must change it at the next sign-in, and within
    FIRST_PASSWORD_HOURS.
    """
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    # Hashing takes a large part of a second, so it is done before the journal is locked.
    hashed = make_password(password)
    with _journal_recorder(author, Capability.MANAGE_ACCOUNTS) as record:
        user = _managed_user(author, name)
        if user.is_service:
            raise PrincipalError(
                f"{user} is a service account: it uses API tokens and cannot have a password"
            )
        User.objects.filter(pk=user.pk).update(
            password=hashed, must_change_password=True, password_expires_at=first_password_end()
        )
        record(
            Change("password-set", principal=str(user)),
            f"{user} has a new password",
            *end_access([user.pk], with_tokens=False),
        )
    return password


def first_password_end() -> datetime:
    """Return the time at which a password that another person sets now expires.

    A password that the user sets does not expire.
    """
    return timezone.now() + timedelta(hours=settings.FIRST_PASSWORD_HOURS)


def add_group(*, author: Author, name: str) -> Outcome:
    """Add an empty group."""
    _check_name("group", name)
    with _journal_recorder(author, allows_provisioner=True) as record:
        if Group.objects.filter(name=name).exists():
            return record(None, f"group:{name} already exists: nothing changed")
        _check_new_name("group", name)
        Group.objects.create(name=name)
        return record(Change("group-add", principal=f"group:{name}"), f"group:{name} was added")


def add_member(*, author: Author, user: str, group: str, validity: Validity = NO_LIMITS) -> Outcome:
    """Add a user to a group, both by name. An account that is not a principal becomes a principal.

    validity: the period of the membership; an existing membership gets this period. Raise ValidityError if it
    has ended.
    """
    with _journal_recorder(author) as record:
        member, member_group = _user(user), _group(group)
        validity.check_not_over()
        stored = memberships().filter(user=member, group=member_group).values_list(*VALIDITY_COLUMNS).first()
        before = None if stored is None else Validity(*stored)
        words = f" {validity.sentence}" if validity.is_limited else ""
        if before == validity:
            return record(None, f"{member} is in group:{group}{words} already: nothing changed")
        memberships().update_or_create(user=member, group=member_group, defaults=validity._asdict())
        check_direct_change(author, joined=[(user, group)])
        if not member.is_principal:
            _become_principal(record, member)
        change = Change(
            "member-add",
            principal=str(member),
            detail=period_detail(validity, f"group:{group}", before=before),
        )
        if before is None:
            return record(change, f"{member} is in group:{group}{words or ' now'}")
        return record(change, f"{member} is in group:{group}{words or ' without an end date'} now")


def remove_member(*, author: Author, user: str, group: str) -> Outcome:
    """Remove a user from a group, both by name."""
    with _journal_recorder(author) as record:
        member, member_group = _user(user), _group(group)
        removed, _ = memberships().filter(user=member, group=member_group).delete()
        if not removed:
            return record(None, f"{member} is not in group:{group}: nothing changed")
        check_direct_change(author, left=[(user, group)])
        change = Change("member-remove", principal=str(member), detail=f"group:{group}")
        return record(change, f"{member} is no longer in group:{group}")


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
    change: Change | None,
    sentence: str,
    more_changes: Iterable[Change] = (),
) -> Outcome:
    if change is not None:
        append_to_journal(head, [change, *more_changes], author=author)
    return Outcome(change is not None, sentence, head.revision)


def _existing_user(record, user: User, is_principal: bool) -> Outcome:
    if not is_principal or user.is_principal:
        return record(None, f"{user} already exists: nothing changed")
    return _become_principal(record, user)


def _become_principal(record, user: User) -> Outcome:
    User.objects.filter(pk=user.pk).update(is_principal=True)
    return record(
        Change("principal-add", principal=str(user)),
        f"{user} was an account of the console; it is a principal now",
    )


def _check_another_administrator(user: User) -> None:
    others = User.objects.filter(role=Role.ADMINISTRATOR, is_active=True).exclude(pk=user.pk)
    if user.can_administer and not others.exists():
        raise PrincipalError(
            f"{user} is the only active administrator of this console: add another administrator first"
        )


def _user(name: str) -> User:
    user = None if storage_fault(name) else User.objects.filter(username=name).first()
    if user is None:
        raise PrincipalError(
            f"user:{clip(name)} does not exist: add it first, or correct the name", field="user"
        )
    return user


def _managed_user(author: Author, name: str) -> User:
    """Return the user.

    Raise NotAdministrator if the author's role does not include the role of the account.
    """
    user = _user(name)
    check_can_manage_account(author, user)
    return user


def _group(name: str) -> Group:
    group = None if storage_fault(name) else Group.objects.filter(name=name).first()
    if group is None:
        raise PrincipalError(
            f"group:{clip(name)} does not exist: add it first, or correct the name", field="group"
        )
    return group


def _check_name(kind: str, name: str) -> None:
    if fault := name_fault(name):
        raise PrincipalError(f"invalid {kind} name: {fault}")


def _check_new_name(kind: str, name: str) -> None:
    if fault := new_name_fault(kind, name):
        raise PrincipalError(f"invalid {kind} name: {fault}")


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
