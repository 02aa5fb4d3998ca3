"""Parse and check addresses of entities, and find the addresses that contain them.

An address is `<kind>:<key>`. The kind is written in lower case and accepted in any case; names are
case-sensitive. The key consists of the names from the namespace down, joined by dots. Only the first dot ends
the namespace, so the name of an artifact or dataset may contain dots. A program is
`namespace.application.type.name`; a kerberos principal is never split.

A pattern is written like an address with `*` or `?` in its key (entities.patterns). Only `parse_grantable` accepts it.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from entities.errors import Refusal
from entities.frozen import frozen
from entities.vocabulary import KINDS, PROGRAM_TYPES, Kind, VocabularyError, clip, kind_by_name, with_article

MAX_KEY_LENGTH = 512
_WILDCARDS = frozenset("*?")

_instance_name = "cdap"


class AddressError(Refusal, ValueError):
    """The text is not an address. The message names the invalid part."""


@frozen
class Address:
    """The address of an entity, or a pattern of addresses. `parse_address`, `address_of` and `parse_grantable` check
    that it is well-formed.
    """

    kind: str
    key: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.key}"

    @property
    def is_pattern(self) -> bool:
        """Whether it is a pattern, which is no entity and has no containers."""
        return is_pattern(self.key)

    @property
    def name(self) -> str:
        """The part of the key that follows the key of the parent; for a program `type.name`."""
        parent = self.parent
        return self.key if parent is None or parent.kind == "instance" else self.key[len(parent.key) + 1 :]

    @property
    def parent(self) -> "Address | None":
        """The address that directly contains this one; None for the instance."""
        containers = ancestor_kinds(self.kind)
        return self.ancestor(containers[0]) if containers else None

    @property
    def namespace(self) -> "Address | None":
        """The namespace that contains this address; a namespace returns itself."""
        return self.ancestor("namespace")

    @property
    def application(self) -> "Address | None":
        """The application that contains this address; an application returns itself."""
        return self.ancestor("application")

    def ancestor(self, kind: str) -> "Address | None":
        """Return this address if it is of this kind, or its container of this kind; None if there is neither, and for
        a pattern.
        """
        if self.is_pattern:
            return None
        if self.kind == kind:
            return self
        chain = ancestor_kinds(self.kind)
        if kind not in chain:
            return None
        if kind == "instance":
            return instance_address()
        return Address(kind, ".".join(self.key.split(".", 2)[: 1 if kind == "namespace" else 2]))

    @property
    def ancestors(self) -> list["Address"]:
        """The containers, from the instance down to the parent."""
        chain = (self.ancestor(kind) for kind in reversed(ancestor_kinds(self.kind)))
        return [ancestor for ancestor in chain if ancestor is not None]

    @property
    def names(self) -> dict[str, str]:
        """The names from the namespace down, by kind, as systems name an entity that do not join them. Of a pattern, the
        parts between its dots. Empty for the instance, and for a pattern that does not have each of these parts.
        """
        kinds = named_kinds(self.kind)
        names = self.key.split(".", len(kinds) - 1) if len(kinds) > 1 else [self.key]
        if names[-1].endswith("*"):
            names += ["*"] * (len(kinds) - len(names))
        return dict(zip(kinds, names, strict=True)) if len(names) == len(kinds) else {}


def ancestor_kinds(kind: str) -> tuple[str, ...]:
    """Return the kinds that contain `kind`, nearest first; none for one that KINDS_FILE no longer has."""
    parent = KINDS[kind].parent if kind in KINDS else None
    return () if parent is None else (parent, *ancestor_kinds(parent))


def kinds_inside(container: str) -> list[str]:
    """Return the kinds of entities that can be inside a container of this kind, at any depth, in the order of the vocabulary."""
    return [kind for kind in KINDS if container in ancestor_kinds(kind)]


def named_kinds(kind: str) -> list[str]:
    """Return the kinds of the names in a key, from the namespace down to `kind`; none for the instance."""
    return [name for name in (*reversed(ancestor_kinds(kind)), kind) if name != "instance"]


def instance_address() -> Address:
    """Return the address of the one instance that this console administers."""
    return Address("instance", _instance_name)


def set_instance_name(name: str) -> None:
    """Set the name of the instance; called once, when the app is ready."""
    global _instance_name
    _check_name(KINDS["instance"], "the name", name)
    _instance_name = name


@lru_cache(maxsize=65_536)
def parse_address(text: str) -> Address:
    """Parse `<kind>:<key>`. Raise AddressError if it is not an address."""
    return address_of(*_split(text))


@lru_cache(maxsize=65_536)
def parse_grantable(text: str) -> Address:
    """Parse what can be granted: an address, or a pattern of addresses. Raise AddressError if it is neither."""
    kind, key = _split(text)
    return _pattern_of(kind_by_name(kind), key) if is_pattern(key) else address_of(kind, key)


def _split(text: str) -> tuple[str, str]:
    """Return the name of the kind and the key."""
    kind, colon, key = text.partition(":")
    if not colon:
        raise AddressError(
            f"`{clip(text)}` is not an address: write <kind>:<name>, such as dataset:sales.orders"
        )
    return _kind_named(kind).name, key


def _kind_named(name: str) -> Kind:
    try:
        return kind_by_name(name)
    except VocabularyError as error:
        raise AddressError(str(error)) from None


def is_pattern(key: str) -> bool:
    """Return whether a key or a written address is a pattern."""
    return not _WILDCARDS.isdisjoint(key)


def address_or_none(text: str, parse: Callable[[str], Address] = parse_address) -> Address | None:
    """Return the address; None if the text is not one. parse: `parse_grantable` to accept patterns."""
    try:
        return parse(text)
    except AddressError:
        return None


@lru_cache(maxsize=65_536)
def address_of(kind: str, key: str) -> Address:
    """Return the address of this kind and key. Raise AddressError if they do not form an address."""
    known_kind = _kind_named(kind)
    _check_length(known_kind, key)
    if is_pattern(key):
        raise AddressError(
            f"`{known_kind.name}:{clip(key)}` is a pattern, because it contains `*` or `?`: grants can be on a pattern, "
            f"but here one address is needed, such as {address_format(known_kind.name)}"
        )
    _check_key(known_kind, key)
    return Address(known_kind.name, key)


def _pattern_of(kind: Kind, key: str) -> Address:
    """Return the pattern with this key. Raise AddressError if no address of this kind can match it."""
    _check_length(kind, key)
    parts = key.split(".")
    if kind.name == "program" and len(parts) == 4:
        parts[2] = parts[2].lower()
        key = ".".join(parts)
    can_have_dots = re.fullmatch(kind.name_pattern, "a.a") is not None
    limit = 4 if kind.name == "program" else len(ancestor_kinds(kind.name)) or 1
    if not can_have_dots and len(parts) > limit:
        raise AddressError(
            f"`{kind.name}:{clip(key)}` has {len(parts)} parts, so it matches nothing: "
            f"{with_article(kind.title)} is written {address_format(kind.name)}"
        )
    for literal in re.split(r"[*?]" if can_have_dots else r"[*?.]", key):
        if literal:
            _check_name(kind, "the part", literal)
    return Address(kind.name, key)


def _check_length(kind: Kind, key: str) -> None:
    if len(key) > MAX_KEY_LENGTH:
        raise AddressError(
            f"the address of this {kind.title} has {len(key)} characters; {MAX_KEY_LENGTH} are allowed"
        )


def _check_key(kind: Kind, key: str) -> None:
    depth = len(ancestor_kinds(kind.name))
    if kind.name == "program":
        _check_program(kind, key)
        return
    if depth <= 1:
        _check_name(kind, "the name", key)
        return
    names = key.split(".", depth - 1)
    parts = names[-1].split(".", kind.name_format.count("."))
    if len(names) < depth or len(parts) <= kind.name_format.count(".") or (len(parts) > 1 and "" in parts):
        raise AddressError(
            f"`{kind.name}:{clip(key)}` lacks a part: "
            f"{with_article(kind.title)} is written {address_format(kind.name)}"
        )
    for container, name in zip(reversed(ancestor_kinds(kind.name)[:-1]), names, strict=False):
        _check_name(KINDS[container], f"the {container}", name)
    _check_name(kind, f"the {kind.title}", names[-1])


def _check_program(kind: Kind, key: str) -> None:
    parts = key.split(".")
    if len(parts) != 4:
        raise AddressError(
            f"`program:{clip(key)}` has {len(parts)} parts, but a program has 4: "
            f"it is written {address_format('program')}"
        )
    namespace, application, program_type, name = parts
    _check_name(KINDS["namespace"], "the namespace", namespace)
    _check_name(KINDS["application"], "the application", application)
    if program_type not in PROGRAM_TYPES:
        raise AddressError(
            f"`{clip(program_type)}` is not a type of program; the types are {', '.join(PROGRAM_TYPES)}"
        )
    _check_name(kind, "the program", name)


def _check_name(kind: Kind, part: str, name: str) -> None:
    if not name:
        raise AddressError(
            f"{part} is empty: {with_article(kind.title)} is written {address_format(kind.name)}"
        )
    # invisible characters (controls, joiners, text direction) would make two principals look alike,
    # and a browser resolves the segments `.` and `..` of a path instead of sending them
    has_dot_segment = kind.name == "kerberosprincipal" and {".", ".."} & set(name.split("/"))
    if not re.fullmatch(kind.name_pattern, name) or not name.isprintable() or has_dot_segment:
        raise AddressError(
            f"{part} `{clip(name)}` contains a character that the name of {with_article(kind.title)} "
            f"cannot contain ({_allowed_characters(kind)})"
        )


def _allowed_characters(kind: Kind) -> str:
    if kind.name == "kerberosprincipal":
        return "no spaces, nothing invisible, and no `.` or `..` between slashes"
    extra = [c for c in "_-.$" if re.fullmatch(kind.name_pattern, c)]
    return f"letters, digits and {' '.join(extra)}" if extra else "letters and digits"


def address_format(kind: str) -> str:
    """Return the written form of an address of this kind, for messages and placeholders."""
    names = [container.upper() for container in reversed(ancestor_kinds(kind)) if container != "instance"]
    return f"{kind}:{'.'.join([*names, KINDS[kind].name_format])}"
