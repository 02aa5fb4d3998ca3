"""Find the addresses that a pattern matches, and the containers that its leading parts match.

In the key of a pattern, `*` matches zero or more characters, including dots, and `?` matches exactly one. All other
characters match themselves. A pattern matches addresses of its own kind, and compares the whole key. It reveals a
container if it can match an address inside it.

INVARIANT: the functions for SQL and those for Python agree (tests/entities/test_patterns.py).
"""

from collections.abc import Callable, Iterable
from typing import Any

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, Q, QuerySet, Value
from django.db.models.sql.compiler import SQLCompiler

from entities.address import Address, ancestor_kinds, kinds_inside
from entities.models import PATTERN, Entity
from entities.vocabulary import INNER_CONTAINER_KINDS

# no name contains the last character, so it is after all characters of names
_LAST = 0x10FFFF


def matches(pattern: Address, address: Address) -> bool:
    """Return whether the pattern matches the address."""
    return pattern.kind == address.kind and _key_matches(pattern.key, address.key)


def reveals(pattern: Address, container: Address) -> bool:
    """Return whether the pattern can match an address inside this namespace or application."""
    if container.kind not in INNER_CONTAINER_KINDS or container.kind not in ancestor_kinds(pattern.kind):
        return False
    length, star = len(container.key), pattern.key.find("*")
    if 0 <= star <= length:
        return _key_matches(pattern.key[: star + 1], container.key)
    boundary, rest = pattern.key[length : length + 1], pattern.key[length + 1 :]
    return boundary in (".", "?") and rest != "" and _key_matches(pattern.key[:length], container.key)


def _key_matches(pattern: str, key: str) -> bool:
    """Compare in time proportional to the product of the lengths, which no regular expression guarantees."""
    position = read = 0
    star, resume = -1, 0
    while read < len(key):
        if position < len(pattern) and pattern[position] == "*":
            star, resume = position, read
            position += 1
        elif position < len(pattern) and pattern[position] in ("?", key[read]):
            position += 1
            read += 1
        elif star >= 0:
            resume += 1
            position, read = star + 1, resume
        else:
            return False
    return not pattern[position:].strip("*")


class _OfKeys(Func):
    """A condition on a pattern and a key. sql: returns it for two expressions; `values` are its parameters."""

    output_field = BooleanField()

    def __init__(self, sql: Callable[[str, str], str], pattern: F | Value, key: F | Value):
        super().__init__(pattern, key)
        self.sql = sql

    def as_postgresql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any
    ) -> tuple[str, tuple[Any, ...]]:
        (pattern, of_pattern), (key, of_key) = map(compiler.compile, self.source_expressions)
        pattern, key = (f"CAST({text} AS text)" if text == "%s" else text for text in (pattern, key))
        sql = self.sql(pattern, key)
        # one of them is a column, and the other one a value
        return sql, (*of_pattern, *of_key) * sql.count("%s")

    as_sqlite = as_postgresql


def rows_about(address: Address) -> QuerySet[Entity]:
    """Return the row of the address, and the rows of the patterns that match it."""
    is_match = Q(_OfKeys(_key_matches_sql, F("key"), Value(address.key)), kind=address.kind, state=PATTERN)
    return Entity.rows.filter(Q(kind=address.kind, key=address.key) | is_match)


def has_patterns() -> bool:
    """Return whether any pattern is registered. Runs one query.

    The state is not a parameter: in a prepared statement with a parameter, PostgreSQL reads all entities.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {Entity._meta.db_table} WHERE state = '{PATTERN}')")
        return bool(cursor.fetchone()[0])


def entities_matching(pattern: Address) -> QuerySet[Entity]:
    """Return the registered addresses that a pattern matches."""
    return Entity.objects.filter(
        _OfKeys(_key_matches_in_range_sql, Value(pattern.key), F("key")), kind=pattern.kind
    )


def containers_revealed_by(pattern: Address) -> QuerySet[Entity]:
    """Return the registered containers that a pattern reveals."""
    return Entity.objects.filter(
        _OfKeys(_key_reveals_sql, Value(pattern.key), F("key")),
        kind__in=[kind for kind in ancestor_kinds(pattern.kind) if kind in INNER_CONTAINER_KINDS],
    )


def patterns_about(address: Address) -> list[int]:
    """Return the primary keys of the patterns that match an address or reveal it. Reads all patterns."""
    rows = Entity.rows.filter(state=PATTERN).values_list("pk", "kind", "key")
    patterns = ((pk, Address(kind, key)) for pk, kind, key in rows.iterator())
    return [pk for pk, pattern in patterns if matches(pattern, address) or reveals(pattern, address)]


def matches_sql(pattern: str, address: str) -> str:
    """Return the SQL condition that a pattern matches an address. Both are aliases of tables with `kind` and `key`."""
    return (
        f"{pattern}.kind = {address}.kind AND {_key_matches_in_range_sql(f'{pattern}.key', f'{address}.key')}"
    )


def reveals_sql(pattern: str, container: str) -> str:
    """Return the SQL condition that a pattern reveals a container. Both are aliases of tables with `kind` and `key`."""
    kinds = " OR ".join(
        f"{container}.kind = '{name}' AND {pattern}.kind IN ({_names(kinds_inside(name))})"
        for name in INNER_CONTAINER_KINDS
    )
    literal, last = _literal_sql(f"{pattern}.key"), _function("chr", f"{_LAST}")
    dot = _function("strpos", literal, "'.'")
    namespace = f"CASE {dot} WHEN 0 THEN {literal} ELSE substr({literal}, 1, {dot} - 1) END"
    # a key after those of this namespace, or after those that begin like the pattern
    end = f"CASE {dot} WHEN 0 THEN {last} ELSE '/' END"
    in_range = f"{container}.key >= {namespace} AND {container}.key < ({namespace}) || {end}"
    return (
        f"{container}.kind IN ({_names(INNER_CONTAINER_KINDS)}) AND {in_range} AND ({kinds}) "
        f"AND {_key_reveals_sql(f'{pattern}.key', f'{container}.key')}"
    )


def pairs_about_sql(addresses: str) -> str:
    """Return a statement for the pairs (pattern, address) of primary keys in which the pattern matches or reveals one of
    these addresses.

    addresses: a condition on the addresses `e`. An address begins with all that is before the first wildcard of a pattern
    that matches it. Of a pattern that reveals it, this may begin with the address instead. The database joins both by
    equality, so that it does not compare each pattern with each address.
    """
    table = Entity._meta.db_table
    dot = _function("strpos", "p.literal", "'.'")
    next_dot = f"{dot} + " + _function("strpos", f"substr(p.literal, {dot} + 1)", "'.'")
    candidates = [
        f"SELECT p.id AS pattern, e.id AS address FROM {table} e "
        "JOIN (SELECT DISTINCT length(literal) AS length FROM patterns) l ON l.length <= length(e.key) "
        f"JOIN patterns p ON p.literal = substr(e.key, 1, l.length) WHERE {addresses}",
        *(
            f"SELECT p.id, e.id FROM {table} e JOIN patterns p ON substr(p.literal, 1, {end}) = e.key || '.' "
            f"WHERE e.kind = '{name}' AND {addresses}"
            for name, end in zip(INNER_CONTAINER_KINDS, (dot, next_dot), strict=True)
        ),
    ]
    return (
        f"WITH patterns AS (SELECT p.id, {_literal_sql('p.key')} AS literal FROM {table} p "
        f"WHERE p.state = '{PATTERN}'), candidates AS MATERIALIZED ({' UNION '.join(candidates)}) "
        f"SELECT p.id, e.id FROM candidates c JOIN {table} p ON p.id = c.pattern JOIN {table} e ON e.id = c.address "
        f"WHERE {matches_sql('p', 'e')} OR {reveals_sql('p', 'e')}"
    )


def _function(name: str, *arguments: str) -> str:
    """Return a call of a function of PostgreSQL, or of the same one of SQLite."""
    name = {"strpos": "instr", "chr": "char"}[name] if connection.vendor == "sqlite" else name
    return f"{name}({', '.join(arguments)})"


def _literal_sql(pattern: str) -> str:
    """Return the expression for what is before the first wildcard."""
    first = _function("strpos", f"replace({pattern}, '?', '*') || '*'", "'*'")
    return f"substr({pattern}, 1, {first} - 1)"


def _key_matches_in_range_sql(pattern: str, key: str) -> str:
    """Return the condition with the range of an index, so that a pattern is compared only with keys that begin like it."""
    literal, last = _literal_sql(pattern), _function("chr", f"{_LAST}")
    return f"({key} >= {literal} AND {key} < {literal} || {last} AND {_key_matches_sql(pattern, key)})"


def _key_reveals_sql(pattern: str, container: str) -> str:
    star, length = _function("strpos", pattern, "'*'"), f"length({container})"
    with_star = _key_matches_sql(f"substr({pattern}, 1, {star})", container)
    before = _key_matches_sql(f"substr({pattern}, 1, {length})", container)
    return (
        f"CASE WHEN {star} BETWEEN 1 AND {length} + 1 THEN {with_star} "
        f"ELSE length({pattern}) > {length} + 1 AND substr({pattern}, {length} + 1, 1) IN ('.', '?') AND {before} END"
    )


def _names(kinds: Iterable[str]) -> str:
    return ", ".join(f"'{kind}'" for kind in kinds)


def _key_matches_sql(pattern: str, key: str) -> str:
    if connection.vendor == "sqlite":
        return f"{key} GLOB replace({pattern}, '[', '[[]')"
    # in a statement with parameters, a percent sign would begin a parameter
    like, percent = pattern, "chr(37)"
    for old, new in (
        (r"'\'", r"'\\'"),
        (percent, rf"'\' || {percent}"),
        ("'_'", r"'\_'"),
        ("'*'", percent),
        ("'?'", "'_'"),
    ):
        like = f"replace({like}, {old}, {new})"
    return f"{key} LIKE {like}"
