"""The permissions of CDAP 6.5 and later, and the privileges that give them.

CDAP 6.5 asks for permissions such as STANDARD:GET instead of privileges. `MAPPING` has both directions:
`required` returns what a permission requires, and `Generation.given_permissions` what a privilege gives. It follows
the two mappings of CDAP itself: `Action` turns a privilege into a permission, `AuthorizerWrapper` a permission into
the privilege that an older extension is asked for. They differ where two privileges became one permission, and the
wrapper asks for ADMIN where a check of visibility became GET.
"""

from enum import StrEnum

from entities.vocabulary import ADMIN, ANY, EXECUTE, READ, WRITE, Privilege
from grants.policies.grammar import Has, Scope
from grants.policies.policy import PermissionMapping, Source, mapping_of


class Permission(StrEnum):
    """The permissions, as SET:NAME."""

    CREATE = "STANDARD:CREATE"
    LIST = "STANDARD:LIST"
    GET = "STANDARD:GET"
    UPDATE = "STANDARD:UPDATE"
    DELETE = "STANDARD:DELETE"
    PREVIEW = "APPLICATION:PREVIEW"
    EXECUTE = "APPLICATION:EXECUTE"
    SET_OWNER = "ACCESS:SET_OWNER"
    IMPERSONATE = "ACCESS:IMPERSONATE"
    TETHER = "INSTANCE:TETHER"
    HEALTH_CHECK = "INSTANCE:HEALTH_CHECK"
    READ_REPOSITORY = "NAMESPACE:READ_REPOSITORY"
    WRITE_REPOSITORY = "NAMESPACE:WRITE_REPOSITORY"
    UPDATE_REPOSITORY_METADATA = "NAMESPACE:UPDATE_REPOSITORY_METADATA"


def _rows(
    file: str,
    privileges: tuple[Privilege, ...],
    note: str,
    *permissions: Permission,
    kinds: tuple[str, ...] = (),
    scope: Scope = Scope.SELF,
) -> list[PermissionMapping]:
    return [
        PermissionMapping(
            permission, kinds, privileges, scope, Source("cdap", file, permission.partition(":")[2], note)
        )
        for permission in permissions
    ]


# The first row of a permission that names the kind counts.
MAPPING: tuple[PermissionMapping, ...] = (
    *_rows(
        "StandardPermission.java",
        (ADMIN,),
        "CDAP asks for it on the entity itself, by its future name",
        Permission.CREATE,
    ),
    *_rows(
        "StandardPermission.java",
        ANY,
        "asked for on the parent, for all its entities of a kind together",
        Permission.LIST,
        scope=Scope.PARENT,
    ),
    *_rows(
        "StandardPermission.java",
        (READ,),
        "it also reads the data, so WRITE and ADMIN do not give it",
        Permission.GET,
        kinds=("dataset", "securekey"),
    ),
    *_rows(
        "StandardPermission.java",
        ANY,
        "it replaces the check of visibility, but on exactly the entity",
        Permission.GET,
    ),
    *_rows(
        "StandardPermission.java",
        (WRITE, ADMIN),
        "WRITE and ADMIN both became UPDATE, so CDAP cannot tell data from properties",
        Permission.UPDATE,
        kinds=("dataset",),
    ),
    *_rows("StandardPermission.java", (ADMIN,), "", Permission.UPDATE, Permission.DELETE),
    *_rows(
        "ApplicationPermission.java",
        (EXECUTE,),
        "",
        Permission.PREVIEW,
        kinds=("application", "program"),
    ),
    *_rows(
        "ApplicationPermission.java",
        (EXECUTE,),
        "",
        Permission.EXECUTE,
        kinds=("application", "program", "system_service"),
    ),
    *_rows(
        "AccessPermission.java",
        (ADMIN,),
        "",
        Permission.SET_OWNER,
        Permission.IMPERSONATE,
        kinds=("kerberosprincipal",),
    ),
    *_rows(
        "InstancePermission.java",
        (ADMIN,),
        "",
        Permission.TETHER,
        Permission.HEALTH_CHECK,
        kinds=("instance",),
    ),
    *_rows(
        "NamespacePermission.java",
        (ADMIN,),
        "",
        Permission.READ_REPOSITORY,
        Permission.WRITE_REPOSITORY,
        Permission.UPDATE_REPOSITORY_METADATA,
        kinds=("namespace",),
    ),
)


def requirement_for(permission: Permission, kind: str) -> Has:
    """Return what a permission on an entity of a kind requires. Raise ValueError if it does not exist there."""
    row = mapping_of(MAPPING, permission, kind)
    if row is None:
        raise ValueError(f"{permission} does not exist on {kind}")
    return row.requirement
