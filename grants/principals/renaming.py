"""Rename users and groups. Rows refer to them by key, so grants, memberships, tokens, sessions and identity
links follow.

Journal lines keep the old names. Plans keep them too: a proposed plan becomes stale, and an applied plan can
still be undone, because `names_since` follows the renames. Security events, reports and the creators of
plans, tokens and webhooks are records of the past and keep the old names. `hooks` refuses to rename
what other systems know by name.
"""

from collections.abc import Callable

from django.db.models.functions import Abs

from entities.vocabulary import clip
from grants.authority.transactions import administrator_transaction
from grants.errors import PrincipalError
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import GROUP, PRINCIPAL_TYPES, USER, JournalLine, PrincipalType, Role, User
from grants.outcomes import Outcome
from grants.principal_names import name_fault
from grants.principals.hooks import name_guard_fault
from grants.principals.new_names import new_name_fault

RENAME_ACTIONS = {name: f"{name}-rename" for name in PRINCIPAL_TYPES}


def rename_user(*, author: Author, name: str, new_name: str) -> Outcome:
    """Give a user another name.

    Raise PrincipalError if the new name is invalid, in use, or looks like another one.
    """
    return _rename(author, USER, name, new_name)


def rename_group(*, author: Author, name: str, new_name: str) -> Outcome:
    """Give a group another name.

    Raise PrincipalError if the new name is invalid, in use, or looks like another one.
    """
    return _rename(author, GROUP, name, new_name)


def names_since(revision: int) -> Callable[[str], str]:
    """Return a function that maps the written name of a principal at `revision` to its current one.

    Runs one query.
    """
    current: dict[str, str] = {}
    origins: dict[str, str] = {}
    lines = JournalLine.objects.filter(revision__gt=revision, action__in=RENAME_ACTIONS.values()).order_by(
        "revision"
    )
    for old, new in lines.values_list("principal", "detail"):
        # a name that is free after a rename belongs to another principal later
        origin = origins.pop(old, old if old not in current else "")
        if origin:
            current[origin] = new
            origins[new] = origin
    return lambda name: current.get(name, name)


def current_name(name: str) -> str:
    """Return the current written name of a principal that had this name before a rename; the same name if
    there is none.

    Runs one query for each rename of the principal, and one more.
    """
    revision, current = 0, name
    lines = JournalLine.objects.filter(action__in=RENAME_ACTIONS.values()).order_by(Abs("revision").desc())
    while (
        line := lines.filter(principal=current, revision__gt=revision)
        .values_list("revision", "detail")
        .first()
    ):
        revision, current = line
    return current


def _rename(author: Author, principal_type: PrincipalType, name: str, new_name: str) -> Outcome:
    kind = principal_type.name
    if fault := name_fault(new_name):
        raise PrincipalError(f"invalid {kind} name: {fault}")
    with administrator_transaction(author, allows_provisioner=True) as head:
        principal = principal_type.find(name)
        if principal is None:
            raise PrincipalError(f"{kind}:{clip(name)} does not exist: correct the name", field=kind)
        if author.is_provisioner and isinstance(principal, User) and principal.role != Role.ORDINARY:
            raise PrincipalError(
                f"{principal} has the console role {principal.role}: only an administrator can rename it"
            )
        if name == new_name:
            return Outcome(False, f"{kind}:{name} has this name already: nothing changed", head.revision)
        if fault := name_guard_fault(principal, is_provisioner=author.is_provisioner):
            raise PrincipalError(f"{kind}:{name} cannot be renamed: {fault}")
        if principal_type.find(new_name):
            raise PrincipalError(f"{kind}:{clip(new_name)} already exists: choose another name")
        if fault := new_name_fault(kind, new_name, replaces=name):
            raise PrincipalError(f"invalid {kind} name: {fault}")
        principal_type.principals.filter(pk=principal.pk).update(**{principal_type.name_column: new_name})
        change = JournalEntry(RENAME_ACTIONS[kind], principal=f"{kind}:{name}", detail=f"{kind}:{new_name}")
        revision = append_to_journal(head, [change], author=author)
        return Outcome(True, f"{kind}:{name} is {kind}:{new_name} now", revision)
