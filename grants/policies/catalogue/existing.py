"""Define the `existing` generation: document 003, column "Privileges Required (Existing)".

If a privilege on the parent is enough, the cell lists it as an alternative. If the cell is blank or says "Not
Documented", there is no rule. A row with a single requirement applies to both columns.
"""

from entities.vocabulary import ADMIN, ANY, EXECUTE, READ, WRITE, Privilege
from grants.policies.grammar import Expression, Given, HasOnAllLive, Parameter, Scope, all_of, any_of, has, on
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

READ_NAMESPACE = on(Scope.NAMESPACE, READ)
WRITE_NAMESPACE = on(Scope.NAMESPACE, WRITE)
ADMIN_NAMESPACE = on(Scope.NAMESPACE, ADMIN)
ADMIN_HERE_OR_NAMESPACE = any_of(has(ADMIN), ADMIN_NAMESPACE)
ANY_HERE_OR_NAMESPACE = any_of(has(*ANY), on(Scope.NAMESPACE, *ANY))

BOTH_COLUMNS = "the row has one requirement, which applies to both columns"
PROPOSED_ONLY = "the row fills only the Proposed column"
NOT_DOCUMENTED = "the Existing cell says Not Documented"
NOT_MENTIONED = "document 003 does not mention it"


def on_program_or_containers(privilege: Privilege) -> Expression:
    """Require the privilege on the program, or on its application, or on its namespace."""
    return any_of(has(privilege), on(Scope.APPLICATION, privilege), on(Scope.NAMESPACE, privilege))


NAMESPACE = (
    table_policies(
        "namespace",
        "003",
        "Namespaces",
        ("create", on(Scope.INSTANCE, ADMIN), "Create"),
        ("update", has(ADMIN), "Update"),
        ("delete", has(ADMIN), "Delete"),
        ("list", has(*ANY), "View/List"),
    )
    + table_policies(
        "namespace",
        "003",
        "Streams",
        (
            "delete-all-streams",
            any_of(has(ADMIN), HasOnAllLive(ADMIN, "stream")),
            "Drop-all in the namespace",
            "one decision: ADMIN on the namespace, or on every live stream in it",
        ),
    )
    + table_policies(
        "namespace",
        "003",
        "Dataset Modules",
        ("delete-all-dataset-modules", has(ADMIN), "Delete-all in the namespace"),
    )
    + table_policies("namespace", "003", "Namespaces", ("get", None, "Get Namespace Meta", PROPOSED_ONLY))
    + without_rule("namespace", "003", NOT_MENTIONED, "search", "set-preferences", "get-preferences")
)

ARTIFACT = (
    table_policies(
        "artifact",
        "003",
        "Artifacts",
        ("add", WRITE_NAMESPACE, "Add"),
        ("set-property", ADMIN_HERE_OR_NAMESPACE, "Add a property"),
        ("delete-property", ADMIN_HERE_OR_NAMESPACE, "Remove a property"),
        ("delete", ADMIN_HERE_OR_NAMESPACE, "Delete"),
        ("list", ANY_HERE_OR_NAMESPACE, "View/List"),
    )
    + table_policies(
        "artifact",
        "003",
        "Artifacts",
        ("get", None, "Get artifact info/summary/detail", PROPOSED_ONLY),
        ("use", None, "Use to deploy an app", PROPOSED_ONLY),
    )
    + without_rule("artifact", "003", NOT_MENTIONED, "get-property", "set-metadata", "get-metadata")
)

APPLICATION = (
    table_policies(
        "application",
        "003",
        "Applications",
        (
            "deploy",
            all_of(WRITE_NAMESPACE, Given(Parameter.EXISTING_ARTIFACT, on(Scope.ARTIFACT, READ))),
            "Add",
            "an existing artifact requires READ on it; a new artifact requires nothing more, because its `add` is a separate question",
        ),
        ("delete", ADMIN_HERE_OR_NAMESPACE, "Delete"),
        ("list", ANY_HERE_OR_NAMESPACE, "View/List"),
    )
    + table_policies(
        "application", "003", "Applications", ("get", None, "Get application detail", PROPOSED_ONLY)
    )
    + without_rule(
        "application",
        "003",
        NOT_MENTIONED,
        "update",
        "set-preferences",
        "get-preferences",
        "set-metadata",
        "get-metadata",
        "add-schedule",
        "update-schedule",
        "delete-schedule",
    )
)

PROGRAM = (
    table_policies(
        "program",
        "003",
        "Programs",
        (
            ("start", "stop", "debug"),
            all_of(on_program_or_containers(EXECUTE), READ_NAMESPACE),
            "Start, Stop, or Debug",
        ),
        ("set-instances", on_program_or_containers(ADMIN), "Set instances"),
        ("set-runtime-args", on_program_or_containers(ADMIN), "Set runtime arguments"),
        ("get-runtime-args", on_program_or_containers(READ), "Retrieve runtime arguments"),
        ("get-status", has(*ANY), "Retrieve status", BOTH_COLUMNS),
        ("list", has(*ANY), "View/List", BOTH_COLUMNS),
    )
    + table_policies(
        "program", "003", "Programs", ("get-specification", None, "Get program specification", PROPOSED_ONLY)
    )
    + without_rule(
        "program",
        "003",
        NOT_MENTIONED,
        "get",
        "get-history",
        "get-instances",
        "set-preferences",
        "get-preferences",
        "set-metadata",
        "get-metadata",
        "emit-logs",
        "view-logs",
        "emit-metrics",
        "view-metrics",
        "resume-schedule",
        "suspend-schedule",
    )
)

STREAM = (
    table_policies(
        "stream",
        "003",
        "Streams",
        ("create", WRITE_NAMESPACE, "Create"),
        ("read-events", all_of(has(READ), READ_NAMESPACE), "Retrieving events"),
        (
            "send-events",
            any_of(all_of(has(WRITE), READ_NAMESPACE), all_of(WRITE_NAMESPACE, READ_NAMESPACE)),
            "Sending events to a stream (sync, async, or batch)",
        ),
        ("delete", ADMIN_HERE_OR_NAMESPACE, "Drop"),
        ("update", ADMIN_HERE_OR_NAMESPACE, "Update"),
        ("truncate", ADMIN_HERE_OR_NAMESPACE, "Truncate"),
        ("list", has(*ANY), "View/List", BOTH_COLUMNS),
    )
    + table_policies(
        "stream",
        "003",
        "Streams",
        ("get", None, "Get stream property", PROPOSED_ONLY),
        ("get-properties", None, "Retrieving properties", PROPOSED_ONLY),
    )
    + without_rule(
        "stream",
        "003",
        NOT_MENTIONED,
        "set-preferences",
        "get-preferences",
        "set-metadata",
        "get-metadata",
        "view-lineage",
        "emit-metrics",
        "view-metrics",
    )
)

DATASET = (
    table_policies(
        "dataset",
        "003",
        "Datasets",
        ("create", WRITE_NAMESPACE, "Create"),
        (
            "read",
            any_of(all_of(has(READ), READ_NAMESPACE), READ_NAMESPACE),
            "Read",
            "read literally: READ on the namespace alone is enough",
        ),
        ("write", any_of(has(WRITE), WRITE_NAMESPACE), "Write"),
        (
            "update",
            any_of(all_of(has(ADMIN), READ_NAMESPACE), all_of(ADMIN_NAMESPACE, READ_NAMESPACE)),
            "Update",
        ),
        ("upgrade", ADMIN_HERE_OR_NAMESPACE, "Upgrade"),
        ("truncate", ADMIN_HERE_OR_NAMESPACE, "Truncate"),
        ("drop", ADMIN_HERE_OR_NAMESPACE, "Drop"),
        ("list", has(*ANY), "View/List", BOTH_COLUMNS),
    )
    + table_policies(
        "dataset",
        "003",
        "Datasets",
        ("get", None, "Get dataset meta", PROPOSED_ONLY),
        ("get-properties", None, "Retrieving properties", NOT_DOCUMENTED),
    )
    + without_rule(
        "dataset",
        "003",
        NOT_MENTIONED,
        "set-metadata",
        "get-metadata",
        "view-lineage",
        "emit-metrics",
        "view-metrics",
    )
)

DATASET_MODULE = table_policies(
    "dataset_module",
    "003",
    "Dataset Modules",
    ("deploy", WRITE_NAMESPACE, "Deploy"),
    ("delete", ADMIN_HERE_OR_NAMESPACE, "Delete"),
    ("list", has(*ANY), "View/List", BOTH_COLUMNS),
) + table_policies(
    "dataset_module", "003", "Dataset Modules", ("get", None, "Get module meta", PROPOSED_ONLY)
)

DATASET_TYPE = table_policies(
    "dataset_type",
    "003",
    "Dataset Types",
    ("list", has(*ANY), "View/List", BOTH_COLUMNS),
) + table_policies(
    "dataset_type", "003", "Dataset Types", ("get", None, "Get dataset type meta", PROPOSED_ONLY)
)

SECUREKEY = (
    table_policies(
        "securekey",
        "003",
        "Secure Keys",
        ("create", WRITE_NAMESPACE, "Create"),
        ("delete", ADMIN_HERE_OR_NAMESPACE, "Delete"),
        ("list", has(*ANY), "View/List", BOTH_COLUMNS),
    )
    + table_policies("securekey", "003", "Secure Keys", ("read", None, "Read", NOT_DOCUMENTED))
    + without_rule("securekey", "003", NOT_MENTIONED, "get")
)

# cited with the seed's own spelling
KERBEROSPRINCIPAL = table_policies(
    "kerberosprincipal",
    "003",
    "Principal",
    ("deploy-app-as", None, "Deploy an app to impersonate a principal", PROPOSED_ONLY),
    ("create-namespace-as", None, "Create a namespace with owner prinicpal", PROPOSED_ONLY),
    ("create-dataset-as", None, "Create a dataset with owner prinicpal", PROPOSED_ONLY),
    ("create-stream-as", None, "Create a stream with owner prinicpal", PROPOSED_ONLY),
    ("query-as", None, "Run a explore query as impersonated prinicpal", PROPOSED_ONLY),
)

GENERAL = general_rules("003", "Existing", "document 003 has rules only for the kinds that it names")


EXISTING = Generation(
    name="existing",
    title="Existing",
    summary="Alternatives up the tree: a privilege on the entity, or on its application, or on its namespace.",
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
        + later_kinds("003")
    ),
    general=GENERAL,
    creator_receives=tuple(Privilege),
    deleting_removes_grants=True,
    lifecycle_source=Source(
        "003",
        "Existing",
        "not named",
        "as in CDAP 3.5 to 4.2: the creator receives all privileges, and deleting removes the grants",
    ),
    deletion=NamespaceDeletion(
        namespace_requirement=has(ADMIN),
        entity_requirement=ADMIN_NAMESPACE,
        on_undeletable=OnUndeletable.STOP,
        source=Source(
            "003",
            "Namespaces",
            "Delete",
            "the row requires only ADMIN on the namespace, so everything is deleted",
        ),
    ),
)
