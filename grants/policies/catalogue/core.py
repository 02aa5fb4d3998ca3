"""Define the `core` generation: documents 001 and 004, which are the same page on two hosts.

004 lacks cells that 001 has. Therefore 001 is cited everywhere, and 004 only if its text says more.
"READ/WRITE/ADMIN" is read literally, without EXECUTE.
"""

from types import MappingProxyType

from entities.vocabulary import ADMIN, EXECUTE, READ, WRITE, Privilege
from grants.policies.grammar import Always, Given, Parameter, Scope, all_of, has, on
from grants.policies.policy import (
    Generation,
    NamespaceDeletion,
    OnUndeletable,
    Source,
    general_rules,
    later_kinds,
    policies_by_operation,
    table_policies,
    without_rule,
)

READ_WRITE_OR_ADMIN = has(READ, WRITE, ADMIN)
WRITE_NAMESPACE = on(Scope.NAMESPACE, WRITE)
READ_NAMESPACE = on(Scope.NAMESPACE, READ)

NO_ROW = "the table has no such row, so the numbered core policy decides"
OPEN_QUESTION = "004 marks this requirement as an open question"
NOT_MENTIONED = "neither the table nor the core policies mention it"

NAMESPACE = table_policies(
    "namespace",
    "001",
    "Namespace",
    ("create", on(Scope.INSTANCE, WRITE), "create"),
    ("update", has(ADMIN), "update"),
    (
        "list",
        Always(),
        "list",
        "the note of the row has priority over its cell READ/WRITE/ADMIN: listing shows all namespaces, even those without "
        "access; the comments of 004 dispute this",
    ),
    ("get", has(READ), "get"),
    ("delete", has(ADMIN), "delete"),
    ("set-preferences", has(WRITE), "set preference"),
    ("get-preferences", has(READ), "get preference"),
    ("search", has(READ), "search"),
) + without_rule(
    "namespace",
    "001",
    "core policy 3 decides each entity by itself, so there is no single decision",
    "delete-all-streams",
    "delete-all-dataset-modules",
    advice="ask `delete` on each entity",
)

ARTIFACT = table_policies(
    "artifact",
    "001",
    "Artifact",
    ("add", WRITE_NAMESPACE, "add"),
    ("delete", has(ADMIN), "delete"),
    ("get", has(READ), "get"),
    ("list", READ_WRITE_OR_ADMIN, "list"),
    ("set-property", has(ADMIN), "write property"),
    ("delete-property", has(ADMIN), "delete property"),
    ("get-property", has(READ), "get property"),
    ("set-metadata", has(ADMIN), "write metadata"),
    ("get-metadata", has(READ), "read metadata"),
) + table_policies(
    "artifact",
    "001",
    "Application",
    (
        "use",
        has(READ),
        "deploy",
        "from the READ that deploying an application from an artifact requires on it",
    ),
)

APPLICATION = table_policies(
    "application",
    "001",
    "Application",
    (
        "deploy",
        all_of(WRITE_NAMESPACE, Given(Parameter.EXISTING_ARTIFACT, on(Scope.ARTIFACT, READ))),
        "deploy",
        "an existing artifact requires READ on it; a new artifact requires nothing more, because its `add` is a separate question",
    ),
    ("get", has(READ), "get"),
    ("list", READ_WRITE_OR_ADMIN, "list"),
    ("update", has(ADMIN), "update"),
    ("delete", has(ADMIN), "delete"),
    ("set-preferences", has(WRITE), "set preference"),
    ("get-preferences", has(READ), "get preference"),
    ("set-metadata", has(ADMIN), "add metadata"),
    ("get-metadata", has(READ), "get metadata"),
) + without_rule("application", "001", NOT_MENTIONED, "add-schedule", "update-schedule", "delete-schedule")

PROGRAM = (
    table_policies(
        "program",
        "001",
        "Programs",
        (("start", "stop", "debug"), all_of(has(EXECUTE), READ_NAMESPACE), "start/stop/debug"),
        ("set-instances", has(ADMIN), "set instances"),
        ("list", READ_WRITE_OR_ADMIN, "list"),
        ("set-runtime-args", has(ADMIN), "set runtime args"),
        ("get-runtime-args", has(READ), "get runtime args"),
        ("get-instances", has(READ), "get instances"),
        ("set-preferences", has(WRITE), "set preference"),
        ("get-preferences", has(READ), "get preference"),
        ("get-status", has(READ), "get status"),
        ("get-history", has(READ), "get history"),
        ("set-metadata", has(ADMIN), "add metadata"),
        ("get-metadata", has(READ), "get metadata"),
        ("emit-logs", WRITE_NAMESPACE, "emit logs", OPEN_QUESTION),
        ("view-logs", has(READ), "view logs"),
        ("emit-metrics", WRITE_NAMESPACE, "emit metrics", OPEN_QUESTION),
        ("view-metrics", has(READ), "view metrics"),
    )
    + table_policies(
        "program",
        "001",
        "Core policies",
        (
            "get",
            all_of(has(READ), on(Scope.PARENT, READ)),
            "Get needs a READ on the entity and READ on the parent",
            NO_ROW,
        ),
    )
    + without_rule(
        "program", "001", NOT_MENTIONED, "get-specification", "resume-schedule", "suspend-schedule"
    )
)

STREAM = table_policies(
    "stream",
    "001",
    "Streams",
    ("create", WRITE_NAMESPACE, "create"),
    ("update", has(ADMIN), "update properties"),
    ("delete", has(ADMIN), "delete"),
    ("truncate", has(ADMIN), "truncate"),
    ("send-events", all_of(has(WRITE), READ_NAMESPACE), "enqueue asyncEnqueue batch"),
    ("get", all_of(has(READ), READ_NAMESPACE), "get"),
    ("list", READ_WRITE_OR_ADMIN, "list"),
    ("read-events", all_of(has(READ), READ_NAMESPACE), "read events"),
    ("set-preferences", has(WRITE), "set preferences"),
    ("get-preferences", has(READ), "get preferences"),
    ("set-metadata", has(ADMIN), "add metadata"),
    ("get-metadata", has(READ), "get metadata"),
    ("view-lineage", has(READ), "view lineage"),
    ("emit-metrics", WRITE_NAMESPACE, "emit metrics", OPEN_QUESTION),
    ("view-metrics", has(READ), "view metrics"),
) + without_rule("stream", "001", NOT_MENTIONED, "get-properties")

DATASET = table_policies(
    "dataset",
    "001",
    "Datasets",
    ("create", WRITE_NAMESPACE, "create"),
    ("get", all_of(has(READ), READ_NAMESPACE), "get"),
    ("list", READ_WRITE_OR_ADMIN, "list"),
    ("update", all_of(has(ADMIN), READ_NAMESPACE), "update"),
    ("drop", has(ADMIN), "drop"),
    ("truncate", has(ADMIN), "truncate"),
    ("upgrade", has(ADMIN), "upgrade"),
    ("set-metadata", has(ADMIN), "add metadata"),
    ("get-metadata", has(READ), "get metadata"),
    ("view-lineage", has(READ), "view lineage"),
    ("emit-metrics", WRITE_NAMESPACE, "emit metrics", OPEN_QUESTION),
    ("view-metrics", has(READ), "view metrics"),
) + without_rule("dataset", "001", NOT_MENTIONED, "get-properties", "read", "write")

CREATE = (on(Scope.PARENT, WRITE), "Create needs a WRITE on the parent", NO_ROW)
DELETE = (has(ADMIN), "Delete needs an ADMIN on the entity", NO_ROW)
LIST = (READ_WRITE_OR_ADMIN, "List needs a READ/WRITE/ADMIN on the entity", NO_ROW)
GET = (
    all_of(has(READ), on(Scope.PARENT, READ)),
    "Get needs a READ on the entity and READ on the parent",
    NO_ROW,
)

DATASET_MODULE = table_policies(
    "dataset_module",
    "001",
    "Core policies",
    ("deploy", *CREATE),
    ("delete", *DELETE),
    ("list", *LIST),
    ("get", *GET),
)

DATASET_TYPE = table_policies("dataset_type", "001", "Core policies", ("list", *LIST), ("get", *GET))

SECUREKEY = table_policies(
    "securekey",
    "001",
    "Core policies",
    ("create", *CREATE),
    ("delete", *DELETE),
    ("list", *LIST),
    ("get", *GET),
) + without_rule("securekey", "001", NOT_MENTIONED, "read")

KERBEROSPRINCIPAL = without_rule(
    "kerberosprincipal",
    "001",
    "the document knows no owner principals",
    "deploy-app-as",
    "create-namespace-as",
    "create-dataset-as",
    "create-stream-as",
    "query-as",
)

GENERAL = general_rules(
    "001",
    "Core policies",
    "the core policies name no such operation",
    create=(on(Scope.PARENT, WRITE), "Create needs a WRITE on the parent"),
    delete=(has(ADMIN), "Delete needs an ADMIN on the entity"),
    list=(READ_WRITE_OR_ADMIN, "List needs a READ/WRITE/ADMIN on the entity"),
    get=(all_of(has(READ), on(Scope.PARENT, READ)), "Get needs a READ on the entity and READ on the parent"),
    admin=(has(ADMIN), "Update needs ADMIN on the entity"),
)


CORE = Generation(
    name="core",
    title="Core",
    summary="WRITE on the parent creates, the creator receives everything, READ on the entity and its parent reads.",
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
        + later_kinds("001")
    ),
    general=GENERAL,
    creator_receives=tuple(Privilege),
    deleting_removes_grants=True,
    lifecycle_source=Source(
        "001",
        "Authorization policies",
        "column Resultant Privileges",
        "deleting an entity removes the grants on it",
    ),
    deletion=NamespaceDeletion(
        namespace_requirement=has(ADMIN),
        entity_requirement=has(ADMIN),
        on_undeletable=OnUndeletable.SKIP,
        # deleting an application asks for ADMIN on the application, and its programs go with it
        requirement_by_kind=MappingProxyType({"program": on(Scope.APPLICATION, ADMIN)}),
        source=Source(
            "001",
            "Core policies",
            "Delete all deletes all entities the user has privileges for and shows errors for the ones not deleted",
            "the document says nothing more about the rest: the namespace remains as long as a live entity is in it",
        ),
    ),
)
