"""Define the `proposed` generation: document 003, column "Privileges Required (Proposed)".

The privileges on each entity are evaluated independently. A blank Proposed cell next to a filled Existing
cell means that the requirement does not change.
"""

from entities.vocabulary import ADMIN, ANY, EXECUTE, READ, WRITE
from grants.policies.grammar import Given, HasAtOrBelow, HasOnAllLive, Parameter, Scope, all_of, has, on
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

ADMIN_ON_OWNER = Given(Parameter.OWNER, on(Scope.OWNER, ADMIN))

BOTH_COLUMNS = "the row has one requirement, which applies to both columns"
UNCHANGED = "the Proposed cell is blank, so the Existing cell applies"
OWNER_NOTE = "with an owner principal also ADMIN on it (003, Principal)"
NOT_MENTIONED = "document 003 does not mention it"

NAMESPACE = (
    table_policies(
        "namespace",
        "003",
        "Namespaces",
        ("create", all_of(has(ADMIN), ADMIN_ON_OWNER), "Create", OWNER_NOTE),
        ("update", has(ADMIN), "Update", UNCHANGED),
        (
            "delete",
            all_of(has(ADMIN), HasOnAllLive(ADMIN)),
            "Delete",
            "all entities are the live ones, at every depth",
        ),
        ("list", HasAtOrBelow(), "View/List"),
        ("get", HasAtOrBelow(), "Get Namespace Meta"),
    )
    + table_policies(
        "namespace",
        "003",
        "Streams",
        (
            "delete-all-streams",
            HasOnAllLive(ADMIN, "stream"),
            "Drop-all in the namespace",
            "one decision: ADMIN on the namespace itself is not required",
        ),
    )
    + table_policies(
        "namespace",
        "003",
        "Dataset Modules",
        (
            "delete-all-dataset-modules",
            HasOnAllLive(ADMIN, "dataset_module"),
            "Delete-all in the namespace",
            "one decision: ADMIN on the namespace itself is not required",
        ),
    )
    + without_rule("namespace", "003", NOT_MENTIONED, "search", "set-preferences", "get-preferences")
)

ARTIFACT = table_policies(
    "artifact",
    "003",
    "Artifacts",
    ("add", has(ADMIN), "Add"),
    ("set-property", has(ADMIN), "Add a property"),
    ("delete-property", has(ADMIN), "Remove a property"),
    ("use", has(ADMIN, READ), "Use to deploy an app"),
    ("delete", has(ADMIN), "Delete"),
    ("list", has(*ANY), "View/List"),
    ("get", has(ADMIN, READ), "Get artifact info/summary/detail"),
) + without_rule("artifact", "003", NOT_MENTIONED, "get-property", "set-metadata", "get-metadata")

APPLICATION = table_policies(
    "application",
    "003",
    "Applications",
    (
        "deploy",
        all_of(
            has(ADMIN),
            Given(Parameter.NEW_ARTIFACT, on(Scope.ARTIFACT, ADMIN)),
            Given(Parameter.EXISTING_ARTIFACT, on(Scope.ARTIFACT, ADMIN, READ)),
            ADMIN_ON_OWNER,
        ),
        "Add",
        "also ADMIN on a new artifact, ADMIN or READ on an existing one, and ADMIN on an owner principal",
    ),
    ("delete", has(ADMIN), "Delete"),
    ("list", HasAtOrBelow(), "View/List"),
    ("get", has(ADMIN, READ), "Get application detail"),
) + without_rule(
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

PROGRAM = table_policies(
    "program",
    "003",
    "Programs",
    (("start", "stop", "debug"), has(EXECUTE), "Start, Stop, or Debug"),
    ("set-instances", has(ADMIN), "Set instances"),
    ("set-runtime-args", has(ADMIN), "Set runtime arguments"),
    ("get-runtime-args", has(READ, EXECUTE, ADMIN), "Retrieve runtime arguments"),
    ("get-status", has(*ANY), "Retrieve status", BOTH_COLUMNS),
    ("list", has(*ANY), "View/List", BOTH_COLUMNS),
    ("get-specification", has(ADMIN, READ), "Get program specification"),
) + without_rule(
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

STREAM = table_policies(
    "stream",
    "003",
    "Streams",
    ("create", all_of(has(ADMIN), ADMIN_ON_OWNER), "Create", OWNER_NOTE),
    ("read-events", has(READ), "Retrieving events"),
    ("get-properties", has(*ANY), "Retrieving properties"),
    ("send-events", has(WRITE), "Sending events to a stream (sync, async, or batch)"),
    ("delete", has(ADMIN), "Drop"),
    ("update", has(ADMIN), "Update"),
    ("truncate", has(ADMIN), "Truncate"),
    ("list", has(*ANY), "View/List", BOTH_COLUMNS),
    ("get", has(ADMIN, READ), "Get stream property"),
) + without_rule(
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

DATASET = table_policies(
    "dataset",
    "003",
    "Datasets",
    ("create", all_of(has(ADMIN), ADMIN_ON_OWNER), "Create", OWNER_NOTE),
    ("read", has(READ), "Read"),
    ("get-properties", has(*ANY), "Retrieving properties"),
    ("write", has(WRITE), "Write"),
    ("update", has(ADMIN), "Update"),
    ("upgrade", has(ADMIN), "Upgrade"),
    ("truncate", has(ADMIN), "Truncate"),
    ("drop", has(ADMIN), "Drop"),
    ("list", has(*ANY), "View/List", BOTH_COLUMNS),
    ("get", has(ADMIN, READ, WRITE), "Get dataset meta"),
) + without_rule(
    "dataset",
    "003",
    NOT_MENTIONED,
    "set-metadata",
    "get-metadata",
    "view-lineage",
    "emit-metrics",
    "view-metrics",
)

DATASET_MODULE = table_policies(
    "dataset_module",
    "003",
    "Dataset Modules",
    ("deploy", has(ADMIN), "Deploy"),
    ("delete", has(ADMIN), "Delete"),
    ("list", has(*ANY), "View/List", BOTH_COLUMNS),
    ("get", has(ADMIN, READ), "Get module meta"),
)

DATASET_TYPE = table_policies(
    "dataset_type",
    "003",
    "Dataset Types",
    ("list", has(*ANY), "View/List", BOTH_COLUMNS),
    ("get", has(ADMIN, READ), "Get dataset type meta"),
)

SECUREKEY = table_policies(
    "securekey",
    "003",
    "Secure Keys",
    ("create", has(ADMIN), "Create"),
    ("delete", has(ADMIN), "Delete"),
    ("list", has(*ANY), "View/List", BOTH_COLUMNS),
    ("read", has(READ), "Read"),
) + without_rule("securekey", "003", NOT_MENTIONED, "get")

# the rows are cited with the seed's own spelling
KERBEROSPRINCIPAL = table_policies(
    "kerberosprincipal",
    "003",
    "Principal",
    ("deploy-app-as", has(ADMIN), "Deploy an app to impersonate a principal"),
    ("create-namespace-as", has(ADMIN), "Create a namespace with owner prinicpal"),
    ("create-dataset-as", has(ADMIN), "Create a dataset with owner prinicpal"),
    ("create-stream-as", has(ADMIN), "Create a stream with owner prinicpal"),
    ("query-as", has(EXECUTE), "Run a explore query as impersonated prinicpal"),
)

GENERAL = general_rules("003", "Proposed", "document 003 has rules only for the kinds that it names")


PROPOSED = Generation(
    name="proposed",
    title="Proposed",
    summary="ADMIN on the entity itself administers it; each entity stands alone.",
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
    creator_receives=(),
    deleting_removes_grants=False,
    lifecycle_source=Source(
        "002",
        "Summary",
        "upon successful creation/deletion the privileges remain unaffected",
        "003 says nothing about it; its Proposed column is the model that 002 describes",
    ),
    deletion=NamespaceDeletion(
        namespace_requirement=has(ADMIN),
        entity_requirement=has(ADMIN),
        on_undeletable=OnUndeletable.STOP,
        source=Source(
            "003",
            "Namespaces",
            "Delete",
            "as in 002, because its note on an inconsistent state is about the same model",
        ),
    ),
)
