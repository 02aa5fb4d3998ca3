"""Define the `final` generation: document 002, and 000 for streams.

The stream rows of 000 are scrambled, so they are read by their meaning. The generation is like `proposed`,
except that every `get` requires any privilege on the entity or on anything inside it. If the tables have no
row, the summary of the document decides.
"""

from entities.vocabulary import ADMIN, ANY, EXECUTE, READ, WRITE
from grants.policies.grammar import Given, HasAtOrBelow, HasOnAllLive, Parameter, Scope, all_of, has, on
from grants.policies.policy import (
    Generation,
    NamespaceDeletion,
    OnUndeletable,
    Policy,
    Source,
    general_rules,
    later_kinds,
    policies_by_operation,
    table_policies,
    without_rule,
)

ANY_AT_OR_BELOW = HasAtOrBelow()
ADMIN_ON_OWNER = Given(Parameter.OWNER, on(Scope.OWNER, ADMIN))

OWNER_NOTE = "with an owner principal also ADMIN on it (002, Kerberos Principal)"
NO_ROW = "the table has no such row, so the summary decides"
SCRAMBLED_ROWS = "the rows of 000 are scrambled and are read by their meaning"
NOT_MENTIONED = "neither the tables nor the summary mention it"

SUMMARY_GET = "get operation"
SUMMARY_LIST = "list or view operation"
SUMMARY_ADMIN = "An admin operation"


def summary_policies(
    kind: str, *, admin: tuple[str, ...] = (), get: tuple[str, ...], listed: tuple[str, ...] = ()
) -> list[Policy]:
    """Return the policies of operations that have no row in the tables. The summary of document 002 decides
    them.

    admin, get, listed: the operations to which the summary's admin rule, get rule and list rule apply.
    """
    return table_policies(
        kind,
        "002",
        "Summary",
        (admin, has(ADMIN), SUMMARY_ADMIN, NO_ROW),
        (get, ANY_AT_OR_BELOW, SUMMARY_GET, NO_ROW),
        (listed, ANY_AT_OR_BELOW, SUMMARY_LIST, NO_ROW),
    )


NAMESPACE = (
    table_policies(
        "namespace",
        "002",
        "Namespaces",
        ("create", all_of(has(ADMIN), ADMIN_ON_OWNER), "Create", OWNER_NOTE),
        ("update", has(ADMIN), "Update"),
        (
            "delete",
            all_of(has(ADMIN), HasOnAllLive(ADMIN)),
            "Delete",
            "all entities are the live ones, at every depth",
        ),
        ("list", ANY_AT_OR_BELOW, "List/View"),
        ("get", ANY_AT_OR_BELOW, "Get"),
    )
    + table_policies(
        "namespace",
        "000",
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
        "002",
        "Dataset Modules",
        (
            "delete-all-dataset-modules",
            HasOnAllLive(ADMIN, "dataset_module"),
            "Delete-all in the namespace",
            "one decision: ADMIN on the namespace itself is not required",
        ),
    )
    + summary_policies("namespace", admin=("set-preferences",), get=("get-preferences",), listed=("search",))
)

ARTIFACT = (
    table_policies(
        "artifact",
        "002",
        "Artifacts",
        ("add", has(ADMIN), "Add"),
        ("set-property", has(ADMIN), "Add a property"),
        ("delete-property", has(ADMIN), "Remove a property"),
        ("delete", has(ADMIN), "Delete"),
        ("list", has(*ANY), "List/View"),
        ("get", has(*ANY), "Get"),
    )
    + table_policies(
        "artifact",
        "002",
        "Applications",
        ("use", has(*ANY), "Add", "from any privilege on an existing artifact"),
    )
    + summary_policies("artifact", admin=("set-metadata",), get=("get-property", "get-metadata"))
)

APPLICATION = (
    table_policies(
        "application",
        "002",
        "Applications",
        (
            "deploy",
            all_of(
                has(ADMIN),
                Given(Parameter.NEW_ARTIFACT, on(Scope.ARTIFACT, ADMIN)),
                Given(Parameter.EXISTING_ARTIFACT, on(Scope.ARTIFACT, *ANY)),
                ADMIN_ON_OWNER,
            ),
            "Add",
            OWNER_NOTE,
        ),
        (
            "delete",
            has(ADMIN),
            "Delete",
            "the row of the application, although the summary could be read as requiring more",
        ),
        ("list", ANY_AT_OR_BELOW, "List/View"),
        ("get", ANY_AT_OR_BELOW, "Get"),
    )
    + table_policies(
        "application",
        "002",
        "Programs",
        (("add-schedule", "update-schedule", "delete-schedule"), has(ADMIN), "Add/Delete/Update schedule"),
    )
    + summary_policies(
        "application",
        admin=("update", "set-preferences", "set-metadata"),
        get=("get-preferences", "get-metadata"),
    )
)

PROGRAM = (
    table_policies(
        "program",
        "002",
        "Programs",
        (("start", "stop", "debug"), has(EXECUTE), "Start, Stop, or Debug"),
        ("set-instances", has(ADMIN), "Set instances"),
        ("set-runtime-args", has(ADMIN), "Set runtime arguments"),
        ("get-runtime-args", has(READ, EXECUTE, ADMIN), "Retrieve runtime arguments", "WRITE does not count"),
        ("get-status", has(*ANY), "Retrieve status"),
        ("list", has(*ANY), "List/View"),
        ("get", has(*ANY), "Get"),
        (("resume-schedule", "suspend-schedule"), has(EXECUTE), "Resume/Suspend schedule"),
    )
    + summary_policies(
        "program",
        admin=("set-preferences", "set-metadata"),
        get=(
            "get-history",
            "get-specification",
            "get-instances",
            "get-preferences",
            "get-metadata",
            "view-logs",
            "view-metrics",
        ),
    )
    + without_rule("program", "002", NOT_MENTIONED, "emit-logs", "emit-metrics")
)

STREAM = (
    table_policies(
        "stream",
        "000",
        "Streams",
        (
            "create",
            all_of(has(ADMIN), ADMIN_ON_OWNER),
            "Create",
            "with an owner principal also ADMIN on it (000, Kerberos Principal)",
        ),
        ("read-events", has(READ), "Retrieving events", SCRAMBLED_ROWS),
        ("send-events", has(WRITE), "Sending events to a stream (sync, async, or batch)", SCRAMBLED_ROWS),
        ("delete", has(ADMIN), "Drop", SCRAMBLED_ROWS),
        ("update", has(ADMIN), "Update", SCRAMBLED_ROWS),
        ("truncate", has(ADMIN), "Truncate"),
        ("list", has(*ANY), "List/View"),
        ("get", has(*ANY), "Get"),
    )
    + summary_policies(
        "stream",
        admin=("set-preferences", "set-metadata"),
        get=("get-properties", "get-preferences", "get-metadata", "view-lineage", "view-metrics"),
    )
    + without_rule("stream", "002", NOT_MENTIONED, "emit-metrics")
)

DATASET = (
    table_policies(
        "dataset",
        "002",
        "Datasets",
        (
            "create",
            all_of(has(ADMIN), Given(Parameter.DATASET_TYPE, on(Scope.DATASET_TYPE, *ANY)), ADMIN_ON_OWNER),
            "Create",
            OWNER_NOTE,
        ),
        ("read", has(READ), "Read"),
        ("write", has(WRITE), "Write"),
        ("update", has(ADMIN), "Update"),
        ("upgrade", has(ADMIN), "Upgrade"),
        ("truncate", has(ADMIN), "Truncate"),
        ("drop", has(ADMIN), "Drop"),
        ("list", has(*ANY), "List/View"),
        ("get", has(*ANY), "Get"),
    )
    + summary_policies(
        "dataset",
        admin=("set-metadata",),
        get=("get-properties", "get-metadata", "view-lineage", "view-metrics"),
    )
    + without_rule("dataset", "002", NOT_MENTIONED, "emit-metrics")
)

DATASET_MODULE = table_policies(
    "dataset_module",
    "002",
    "Dataset Modules",
    ("deploy", has(ADMIN), "Deploy"),
    ("delete", has(ADMIN), "Delete"),
    ("list", has(*ANY), "List/View"),
    ("get", has(*ANY), "Get"),
)

DATASET_TYPE = table_policies(
    "dataset_type",
    "002",
    "Dataset Types",
    ("list", has(*ANY), "List/View"),
    ("get", has(*ANY), "Get"),
)

SECUREKEY = table_policies(
    "securekey",
    "002",
    "Secure Keys",
    ("create", has(ADMIN), "Create"),
    ("read", has(READ), "READ the secure data"),
    ("delete", has(ADMIN), "Delete"),
    ("list", has(*ANY), "List/View"),
) + summary_policies("securekey", get=("get",))

KERBEROSPRINCIPAL = (
    table_policies(
        "kerberosprincipal",
        "002",
        "Kerberos Principal",
        ("deploy-app-as", has(ADMIN), "Deploy an app to impersonate a kerberos principal"),
        ("create-namespace-as", has(ADMIN), "Create a namespace with owner principal"),
        ("create-dataset-as", has(ADMIN), "Create a dataset with owner principal"),
    )
    + table_policies(
        "kerberosprincipal",
        "000",
        "Kerberos Principal",
        (
            "create-stream-as",
            has(ADMIN),
            "Create a stream with owner principal",
            "the row is incomplete in 000; ADMIN on the principal, like the three other rows",
        ),
    )
    + without_rule("kerberosprincipal", "002", NOT_MENTIONED, "query-as")
)

GENERAL = general_rules(
    "002",
    "Summary",
    NOT_MENTIONED,
    create=(has(ADMIN), "create operation"),
    read=(has(READ), "read operation"),
    write=(has(WRITE), "write operation"),
    execute=(has(EXECUTE), "An execute operation"),
    admin=(has(ADMIN), SUMMARY_ADMIN),
    list=(ANY_AT_OR_BELOW, SUMMARY_LIST),
    get=(ANY_AT_OR_BELOW, SUMMARY_GET),
    delete=(has(ADMIN), "delete operation"),
)


FINAL = Generation(
    name="final",
    title="Final",
    summary="As proposed, but any privilege on an entity, or on anything inside it, shows it.",
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
        + later_kinds("002")
    ),
    general=GENERAL,
    creator_receives=(),
    deleting_removes_grants=False,
    lifecycle_source=Source(
        "002", "Summary", "upon successful creation/deletion the privileges remain unaffected"
    ),
    deletion=NamespaceDeletion(
        namespace_requirement=has(ADMIN),
        entity_requirement=has(ADMIN),
        on_undeletable=OnUndeletable.STOP,
        source=Source(
            "002",
            "Namespaces",
            "Delete",
            "lack of the privileges may result in an inconsistent state for the namespace: some entities may get "
            "cleaned up while entities with insufficient privileges will remain",
        ),
    ),
)
