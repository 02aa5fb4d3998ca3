"""Define the vocabulary of the platform: privileges, kinds of entity, and the operations of each kind.

A kind is data: its parent, the pattern of its names and its operations. The kinds of the platform are defined
here; a deployment can add further ones with `register_kind`.
"""

import re
from enum import StrEnum

from entities.errors import Refusal
from entities.frozen import frozen


class Privilege(StrEnum):
    """The privileges, in the order in which they are always displayed."""

    READ = "READ"
    WRITE = "WRITE"
    EXECUTE = "EXECUTE"
    ADMIN = "ADMIN"


READ, WRITE, EXECUTE, ADMIN = Privilege.READ, Privilege.WRITE, Privilege.EXECUTE, Privilege.ADMIN

# Rules that accept any privilege use this tuple, so they also accept a privilege that is added later.
ANY = tuple(Privilege)

# A live entity is stranded if fewer active users than this hold ADMIN on it, directly or through a group.
# Plans, the forecast of administrator losses and the analysis on Spark all use this definition.
MIN_ADMINISTRATORS = 2

PROGRAM_TYPES = ("flow", "mapreduce", "workflow", "service", "spark", "worker")

NAMESPACE_NAME = r"[A-Za-z0-9_]+"
PLAIN_NAME = r"[A-Za-z0-9_-]+"
DOTTED_NAME = r"[A-Za-z0-9_.-]+"
DATASET_NAME = r"[A-Za-z0-9_.$-]+"
# a kerberos principal may contain any visible character, including `/` and `@`
PRINCIPAL_NAME = r"\S+"


class VocabularyError(Refusal, ValueError):
    """The kind, privilege or operation is unknown or invalid. The message lists the known names."""


@frozen
class Kind:
    """One kind of entity.

    name: the part of an address before the colon. parent: the kind that contains it; None for the root.
    name_pattern: regular expression for the last part of an address.
    classes: for a deployment's own kind, (operation, class) pairs; the general rules of a generation apply to
    the class.
    name_format: the parts of the name, joined by dots, as messages show them.
    """

    name: str
    title: str
    plural: str
    parent: str | None
    name_pattern: str
    operations: tuple[str, ...]
    classes: tuple[tuple[str, "OperationClass"], ...] = ()
    name_format: str = "NAME"

    def operation_class(self, operation: str) -> "OperationClass | None":
        """Return the class of an operation; None for the built-in kinds, which have a rule for each
        operation.
        """
        return dict(self.classes).get(operation)


class OperationClass(StrEnum):
    """The class of an operation on a deployment's own kind, which the documents do not name."""

    CREATE = "create"
    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    ADMIN = "admin"
    LIST = "list"
    GET = "get"
    DELETE = "delete"


_PREFERENCES = ("set-preferences", "get-preferences")
_METADATA = ("set-metadata", "get-metadata")
_METRICS = ("emit-metrics", "view-metrics")

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("instance", "instance", "instances", None, PLAIN_NAME, ()),
        Kind(
            "namespace",
            "namespace",
            "namespaces",
            "instance",
            NAMESPACE_NAME,
            (
                "create",
                "update",
                "delete",
                "list",
                "get",
                "search",
                *_PREFERENCES,
                "delete-all-streams",
                "delete-all-dataset-modules",
            ),
        ),
        Kind(
            "artifact",
            "artifact",
            "artifacts",
            "namespace",
            DOTTED_NAME,
            (
                "add",
                "delete",
                "list",
                "get",
                "use",
                "set-property",
                "delete-property",
                "get-property",
                *_METADATA,
            ),
        ),
        Kind(
            "application",
            "application",
            "applications",
            "namespace",
            PLAIN_NAME,
            (
                "deploy",
                "update",
                "delete",
                "list",
                "get",
                *_PREFERENCES,
                *_METADATA,
                "add-schedule",
                "update-schedule",
                "delete-schedule",
            ),
        ),
        Kind(
            "program",
            "program",
            "programs",
            "application",
            PLAIN_NAME,
            (
                "start",
                "stop",
                "debug",
                "list",
                "get",
                "get-status",
                "get-history",
                "get-specification",
                "set-instances",
                "get-instances",
                "set-runtime-args",
                "get-runtime-args",
                *_PREFERENCES,
                *_METADATA,
                "emit-logs",
                "view-logs",
                *_METRICS,
                "resume-schedule",
                "suspend-schedule",
            ),
            name_format="TYPE.NAME",
        ),
        Kind(
            "stream",
            "stream",
            "streams",
            "namespace",
            PLAIN_NAME,
            (
                "create",
                "update",
                "delete",
                "truncate",
                "list",
                "get",
                "get-properties",
                "read-events",
                "send-events",
                *_PREFERENCES,
                *_METADATA,
                "view-lineage",
                *_METRICS,
            ),
        ),
        Kind(
            "dataset",
            "dataset",
            "datasets",
            "namespace",
            DATASET_NAME,
            (
                "create",
                "update",
                "drop",
                "truncate",
                "upgrade",
                "list",
                "get",
                "get-properties",
                "read",
                "write",
                *_METADATA,
                "view-lineage",
                *_METRICS,
            ),
        ),
        Kind(
            "dataset_module",
            "dataset module",
            "dataset modules",
            "namespace",
            DATASET_NAME,
            ("deploy", "delete", "list", "get"),
        ),
        Kind("dataset_type", "dataset type", "dataset types", "namespace", DATASET_NAME, ("list", "get")),
        Kind(
            "securekey",
            "secure key",
            "secure keys",
            "namespace",
            PLAIN_NAME,
            ("create", "delete", "list", "get", "read"),
        ),
        Kind(
            "kerberosprincipal",
            "kerberos principal",
            "kerberos principals",
            "instance",
            PRINCIPAL_NAME,
            ("deploy-app-as", "create-namespace-as", "create-dataset-as", "create-stream-as", "query-as"),
        ),
        # The kinds that have permissions of their own since CDAP 6.5.
        Kind(
            "profile",
            "profile",
            "profiles",
            "namespace",
            PLAIN_NAME,
            ("create", "list", "get", "update", "delete"),
        ),
        Kind(
            "system_service",
            "system service",
            "system services",
            "instance",
            DOTTED_NAME,
            ("list", "get", "update", "restart"),
        ),
        # what a system application keeps in a namespace, such as a connection
        Kind(
            "system_app_entity",
            "system application entity",
            "system application entities",
            "namespace",
            DOTTED_NAME,
            ("create", "list", "get", "update", "delete"),
            name_format="APPLICATION.TYPE.NAME",
        ),
    )
}

# position of each kind in lists of several kinds
KIND_ORDER: dict[str, int] = {name: position for position, name in enumerate(KINDS)}

CONTAINER_KINDS = ("instance", "namespace", "application")
# those of which an entity and a grant have a column
INNER_CONTAINER_KINDS = CONTAINER_KINDS[1:]


def kind_by_name(name: str) -> Kind:
    """Return the kind of that name, written in any case. Raise VocabularyError if there is none."""
    # outside ASCII, lower-casing can produce other letters: a Kelvin sign would become a k
    kind = KINDS.get(name.lower()) if name.isascii() else None
    if kind is None:
        raise VocabularyError(f"`{clip(name)}` is not a kind of entity; the kinds are {', '.join(KINDS)}")
    return kind


def privilege_by_name(name: object) -> Privilege:
    """Return the privilege with exactly this name. Raise VocabularyError if there is none."""
    if isinstance(name, str) and name in Privilege.__members__:
        return Privilege[name]
    raise VocabularyError(f"`{clip(name)}` is not a privilege; the privileges are {', '.join(ANY)}")


def register_kind(kind: Kind) -> None:
    """Add a kind that this deployment defines.

    Raise VocabularyError if its name is taken or its parent is not a container.
    """
    if kind.name in KINDS:
        raise VocabularyError(f"the kind `{kind.name}` already exists")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", kind.name):
        raise VocabularyError(
            f"`{clip(kind.name)}` is not a valid name for a kind: use lower-case letters, digits and _, "
            "and start with a letter"
        )
    if kind.parent not in CONTAINER_KINDS:
        raise VocabularyError(
            f"the kind `{kind.name}` must be inside one of {', '.join(CONTAINER_KINDS)}, "
            f"not in `{clip(kind.parent)}`"
        )
    for operation in kind.operations:
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", operation):
            raise VocabularyError(
                f"`{clip(operation)}` is not a valid name for an operation: use lower-case letters, digits, "
                "_ and -, and start with a letter"
            )
    KINDS[kind.name] = kind
    KIND_ORDER.setdefault(kind.name, len(KIND_ORDER))


def child_kinds(kind: str) -> list[Kind]:
    """Return the kinds directly inside `kind`, in the order of the vocabulary."""
    return [child for child in KINDS.values() if child.parent == kind]


def clip(value: object, max_characters: int = 80) -> str:
    """Return the value as short, printable text, to be quoted in a message."""
    text = str(value)
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:max_characters])
    return printable + ("…" if len(text) > max_characters else "")


def quantity(count: int, singular: str, plural: str) -> str:
    """Return a count with its noun, such as `1 grant` or `1,200 grants`."""
    return f"{count:,} {singular if count == 1 else plural}"


def join_words(words: list[str], conjunction: str = "and") -> str:
    """Join one or more words with commas, and the last two with `conjunction`: `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def with_article(noun: str) -> str:
    """Return the noun with its indefinite article."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
