"""Define the `cdap65` generation: the checks of CDAP 6.5 and later.

No document describes them, so each policy cites a class and a method of CDAP's source (`docs/seeds/cdap.txt`). What a
method asks for is a permission, and `platform_permissions` says which privileges give it. `enforce` asks about exactly one
entity, `enforceOnParent` about its parent, and `isVisible` accepts any privilege on the entity or inside it.
"""

from collections.abc import Iterable
from typing import Any

from entities.vocabulary import ADMIN, ANY, EXECUTE, READ, WRITE
from grants.policies.catalogue.platform_permissions import MAPPING, Permission, requirement_for
from grants.policies.grammar import (
    Expression,
    Given,
    HasAtOrBelow,
    HasOnAllLive,
    Parameter,
    Scope,
    all_of,
    has,
    on,
)
from grants.policies.policy import (
    Generation,
    NamespaceDeletion,
    OnUndeletable,
    Policy,
    Source,
    general_rules,
    policies_by_operation,
    table_policies,
    without_rule,
)

CREATE, LIST, GET, UPDATE, DELETE = (
    Permission.CREATE,
    Permission.LIST,
    Permission.GET,
    Permission.UPDATE,
    Permission.DELETE,
)
VISIBLE = HasAtOrBelow()
SET_OWNER = Given(
    Parameter.OWNER, on(Scope.OWNER, *requirement_for(Permission.SET_OWNER, "kerberosprincipal").privileges)
)

VISIBLE_NOTE = "the entities for which isVisible is true"
NO_STREAMS = "CDAP has no streams since 6.0"
NO_CHECK = "no check of a permission was found in the source"


def checks(kind: str, file: str, *rows: tuple[Any, ...]) -> list[Policy]:
    """Return the policies of the methods in one file of the source.

    rows: (operation or operations, requirement, method, optional note). A requirement is an expression, a
    permission, or several, which are all required.
    """
    return table_policies(
        kind,
        "cdap",
        file,
        *((operations, _requirement(kind, needed), *rest) for operations, needed, *rest in rows),
    )


def _requirement(
    kind: str, needed: "Permission | Expression | Iterable[Permission | Expression]"
) -> Expression:
    if isinstance(needed, Permission):
        return requirement_for(needed, kind)
    if isinstance(needed, tuple):
        return all_of(*(_requirement(kind, part) for part in needed))
    assert not isinstance(needed, Iterable)
    return needed


def preferences(kind: str) -> list[Policy]:
    return checks(
        kind,
        "PreferencesHttpHandler.java",
        ("set-preferences", UPDATE, "set and delete"),
        ("get-preferences", GET, "get"),
    )


def metadata(kind: str) -> list[Policy]:
    return checks(
        kind,
        "MetadataHttpHandler.java",
        ("set-metadata", UPDATE, "add and remove"),
        ("get-metadata", GET, "get"),
    )


NAMESPACE = (
    checks(
        "namespace",
        "DefaultNamespaceAdmin.java",
        ("create", (CREATE, SET_OWNER), "create"),
        ("update", UPDATE, "updateProperties"),
        (
            "delete",
            (DELETE, HasOnAllLive(ADMIN)),
            "delete",
            "each entity is then deleted by its own service, which asks for DELETE on it",
        ),
        ("list", VISIBLE, "list", VISIBLE_NOTE),
        ("get", GET, "get", "on the namespace itself: a privilege inside it lists the namespace only"),
    )
    + checks(
        "namespace",
        "MetadataHttpHandler.java",
        ("search", VISIBLE, "searchNamespace", VISIBLE_NOTE),
    )
    + checks(
        "namespace",
        "AuthorizationDatasetTypeService.java",
        (
            "delete-all-dataset-modules",
            HasOnAllLive(ADMIN, "dataset_module"),
            "deleteAll",
            "DELETE on each module",
        ),
    )
    + preferences("namespace")
    + without_rule("namespace", "cdap", NO_STREAMS, "delete-all-streams")
)

ARTIFACT = checks(
    "artifact",
    "AuthorizationArtifactRepository.java",
    ("add", CREATE, "addArtifact"),
    ("delete", DELETE, "deleteArtifact"),
    ("list", LIST, "getArtifactSummaries", "the result is not filtered"),
    (("get", "use", "get-property"), GET, "getArtifact"),
    (("set-property", "delete-property"), UPDATE, "writeArtifactProperty and deleteArtifactProperty"),
) + metadata("artifact")

APPLICATION = (
    checks(
        "application",
        "ApplicationLifecycleService.java",
        (
            "deploy",
            (
                CREATE,
                Given(
                    Parameter.NEW_ARTIFACT,
                    on(Scope.ARTIFACT, *requirement_for(CREATE, "artifact").privileges),
                ),
                Given(
                    Parameter.EXISTING_ARTIFACT,
                    on(Scope.ARTIFACT, *requirement_for(GET, "artifact").privileges),
                ),
                SET_OWNER,
            ),
            "deployApp",
            "the artifact is added or read by AuthorizationArtifactRepository.java",
        ),
        ("update", UPDATE, "updateApp"),
        ("delete", DELETE, "removeApplication"),
        ("list", (LIST, VISIBLE), "scanApplications", VISIBLE_NOTE),
        ("get", GET, "getAppDetail"),
    )
    + checks(
        "application",
        "ProgramScheduleService.java",
        (
            ("add-schedule", "update-schedule", "delete-schedule"),
            Permission.EXECUTE,
            "add, update and delete",
        ),
    )
    + preferences("application")
    + metadata("application")
)

PROGRAM = (
    checks(
        "program",
        "ProgramLifecycleService.java",
        (("start", "stop", "debug"), Permission.EXECUTE, "run and stop"),
        ("list", VISIBLE, "list", VISIBLE_NOTE),
        (
            ("get", "get-status", "get-history", "get-specification", "get-instances"),
            GET,
            "getProgramStatus and ensureProgramExists",
        ),
        ("set-instances", UPDATE, "setInstances"),
        ("set-runtime-args", UPDATE, "saveRuntimeArgs"),
        ("get-runtime-args", GET, "getRuntimeArgs"),
    )
    + checks(
        "program",
        "ProgramScheduleService.java",
        (("resume-schedule", "suspend-schedule"), Permission.EXECUTE, "resume and suspend"),
    )
    + checks("program", "LogHttpHandler.java", ("view-logs", GET, "ensureVisibilityOnProgram"))
    + preferences("program")
    + metadata("program")
    + without_rule("program", "cdap", NO_CHECK, "emit-logs", "emit-metrics", "view-metrics")
)

STREAM = without_rule(
    "stream",
    "cdap",
    NO_STREAMS,
    "create",
    "update",
    "delete",
    "truncate",
    "list",
    "get",
    "get-properties",
    "read-events",
    "send-events",
    "set-preferences",
    "get-preferences",
    "set-metadata",
    "get-metadata",
    "view-lineage",
    "emit-metrics",
    "view-metrics",
)

DATASET = (
    checks(
        "dataset",
        "DatasetInstanceService.java",
        (
            "create",
            (
                CREATE,
                Given(
                    Parameter.DATASET_TYPE,
                    on(Scope.DATASET_TYPE, *requirement_for(GET, "dataset_type").privileges),
                ),
                SET_OWNER,
            ),
            "create",
        ),
        (("update", "upgrade"), UPDATE, "update and upgrade"),
        ("drop", DELETE, "drop"),
        ("truncate", DELETE, "truncate"),
        ("list", LIST, "list", "the result is not filtered"),
        (("get", "get-properties"), GET, "get and getOriginalProperties"),
    )
    + checks(
        "dataset",
        "DefaultDatasetRuntimeContext.java",
        ("read", GET, "ReadOnly"),
        ("write", UPDATE, "WriteOnly"),
    )
    + metadata("dataset")
    + without_rule("dataset", "cdap", NO_CHECK, "view-lineage", "emit-metrics", "view-metrics")
)

DATASET_MODULE = checks(
    "dataset_module",
    "AuthorizationDatasetTypeService.java",
    ("deploy", CREATE, "addModule"),
    ("delete", DELETE, "delete"),
    ("list", VISIBLE, "listModules", VISIBLE_NOTE),
    ("get", GET, "getModule"),
)

DATASET_TYPE = checks(
    "dataset_type",
    "AuthorizationDatasetTypeService.java",
    ("list", VISIBLE, "listTypes", VISIBLE_NOTE),
    ("get", GET, "getType"),
)

SECUREKEY = checks(
    "securekey",
    "DefaultSecureStoreService.java",
    ("create", UPDATE, "put"),
    ("delete", DELETE, "delete"),
    ("list", VISIBLE, "list", VISIBLE_NOTE),
    (("get", "read"), GET, "get"),
)

KERBEROSPRINCIPAL = (
    checks(
        "kerberosprincipal",
        "ApplicationLifecycleService.java",
        ("deploy-app-as", Permission.SET_OWNER, "deployApp"),
    )
    + checks(
        "kerberosprincipal",
        "DefaultNamespaceAdmin.java",
        ("create-namespace-as", Permission.SET_OWNER, "create"),
    )
    + checks(
        "kerberosprincipal",
        "DatasetInstanceService.java",
        ("create-dataset-as", Permission.SET_OWNER, "create"),
    )
    + without_rule("kerberosprincipal", "cdap", NO_STREAMS, "create-stream-as")
    + without_rule("kerberosprincipal", "cdap", NO_CHECK, "query-as")
)

PROFILE = checks(
    "profile",
    "RolePermissionConverter.java",
    ("create", CREATE, "CREATE_COMPUTE_PROFILE"),
    ("list", LIST, "VIEW_COMPUTE_PROFILE"),
    ("get", GET, "VIEW_COMPUTE_PROFILE"),
    ("update", UPDATE, "MODIFY_COMPUTE_PROFILE"),
    ("delete", DELETE, "DELETE_COMPUTE_PROFILE"),
)

SYSTEM_SERVICE = checks(
    "system_service",
    "MonitorHandlerAuthorizationTest.java",
    ("list", LIST, "getServiceSpec", "asked for on the instance"),
    ("get", GET, "getServiceLiveInfo"),
    ("update", UPDATE, "setServiceInstance"),
    ("restart", Permission.EXECUTE, "restartAllServiceInstances"),
)

SYSTEM_APP_ENTITY = checks(
    "system_app_entity",
    "ConnectionHandler.java",
    ("create", CREATE, "createConnection"),
    ("list", LIST, "listConnections", "the result is not filtered"),
    ("get", GET, "getConnection"),
    ("update", UPDATE, "createConnection", "for a connection that exists"),
    ("delete", DELETE, "deleteConnection"),
)

GENERAL = general_rules(
    "cdap",
    "StandardPermission.java",
    NO_CHECK,
    create=(has(ADMIN), "CREATE"),
    read=(has(READ), "GET"),
    write=(has(WRITE, ADMIN), "UPDATE"),
    execute=(has(EXECUTE), "EXECUTE"),
    admin=(has(ADMIN), "UPDATE"),
    list=(on(Scope.PARENT, *ANY), "LIST"),
    get=(has(*ANY), "GET"),
    delete=(has(ADMIN), "DELETE"),
)


CDAP65 = Generation(
    name="cdap65",
    title="CDAP 6.5",
    summary="CDAP 6.5 and later: a privilege on the entity itself reads it, and one on its parent lists it.",
    policies=policies_by_operation(
        NAMESPACE
        + ARTIFACT
        + APPLICATION
        + PROGRAM
        + STREAM
        + DATASET
        + DATASET_MODULE
        + DATASET_TYPE
        + SECUREKEY
        + KERBEROSPRINCIPAL
        + PROFILE
        + SYSTEM_SERVICE
        + SYSTEM_APP_ENTITY
    ),
    general=GENERAL,
    creator_receives=(),
    deleting_removes_grants=False,
    lifecycle_source=Source(
        "cdap", "DefaultNamespaceAdmin.java", "create", "neither create nor delete grants or revokes anything"
    ),
    deletion=NamespaceDeletion(
        namespace_requirement=requirement_for(DELETE, "namespace"),
        entity_requirement=has(ADMIN),
        on_undeletable=OnUndeletable.STOP,
        source=Source(
            "cdap",
            "DefaultNamespaceAdmin.java",
            "delete",
            "the services delete kind by kind, and the first that lacks DELETE stops the deletion",
        ),
    ),
    platform_permissions=MAPPING,
)
