"""Translate SCIM filters and `sortBy` to conditions of the database (RFC 7644, 3.4.2.2 and 3.4.2.3)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from django.db.models import Exists, F, Q, QuerySet, Value
from django.db.models.expressions import OrderBy
from django.db.models.functions import Length, NullIf, Right, StrIndex
from django.db.models.lookups import Exact, GreaterThan
from scim2_models import InvalidFilterException, InvalidPathException, Path, SCIMException, ScimFilter
from scim2_models.path import (
    CompareOperator,
    Comparison,
    FilterVisitor,
    LogicalExpr,
    LogicalOperator,
    Not,
    Present,
    ValuePath,
)

from entities.frozen import frozen
from entities.text import is_storable

MAX_FILTER_CHARACTERS = 4_000
MAX_NESTING = 50
_ORDERS = {
    CompareOperator.gt: "gt",
    CompareOperator.ge: "gte",
    CompareOperator.lt: "lt",
    CompareOperator.le: "lte",
}
_NOTHING, _EVERYTHING = Q(pk__in=[]), ~Q(pk__in=[])
Key = tuple[str, str | None]
# columns that are never null or empty
REQUIRED = ("username", "name")


@frozen
class TextColumn:
    """A string. An empty string means that the attribute has no value."""

    path: str
    is_case_exact: bool = True

    def compare(self, operator: CompareOperator, value: Any) -> Q:
        if not isinstance(value, str) or not is_storable(value):
            raise InvalidFilterException(
                detail=f"{operator} compares this attribute with a string that can be stored"
            )
        if operator in _ORDERS:
            return self.present() & Q(**{f"{self.path}__{_ORDERS[operator]}": value})
        if operator in (CompareOperator.eq, CompareOperator.ne):
            equal = (
                Q(**{f"{self.path}__{'exact' if self.is_case_exact else 'iexact'}": value}) & self.present()
            )
            return equal if operator == CompareOperator.eq else ~equal
        if not value:
            return self.present()
        if not self.is_case_exact:
            lookup = {
                CompareOperator.co: "icontains",
                CompareOperator.sw: "istartswith",
                CompareOperator.ew: "iendswith",
            }
            return Q(**{f"{self.path}__{lookup[operator]}": value})
        # `contains` of SQLite ignores the case
        if operator == CompareOperator.ew:
            return Q(Exact(Right(self.path, Length(Value(value))), value))
        position = StrIndex(F(self.path), Value(value))
        return Q(Exact(position, 1)) if operator == CompareOperator.sw else Q(GreaterThan(position, 0))

    def present(self) -> Q:
        return Q(**{f"{self.path}__gt": ""})


class EqualityColumn:
    """A column that can only be compared by eq and ne, with values of `types`. refusal: the error otherwise."""

    types: ClassVar[type] = object
    refusal: ClassVar[str]

    def compare(self, operator: CompareOperator, value: Any) -> Q:
        if operator not in (CompareOperator.eq, CompareOperator.ne) or not isinstance(value, self.types):
            raise InvalidFilterException(detail=self.refusal)
        equal = self.equal(value)
        return equal if operator == CompareOperator.eq else ~equal

    def equal(self, value: Any) -> Q:
        raise NotImplementedError


@dataclass(frozen=True)
class IdColumn(EqualityColumn):
    """A primary key, which SCIM treats as a string. is_required: it is never null."""

    path: str
    is_required: bool = True
    types, refusal = str, "ids can only be compared with a string by eq and ne"

    def equal(self, value: str) -> Q:
        number = id_from_text(value)
        return _NOTHING if number is None else Q(**{self.path: number})

    def present(self) -> Q:
        return _EVERYTHING if self.is_required else Q(**{f"{self.path}__isnull": False})


@dataclass(frozen=True)
class BooleanColumn(EqualityColumn):
    path: str
    types, refusal = bool, "a boolean can only be compared with true and false by eq and ne"

    def equal(self, value: bool) -> Q:
        return Q(**{self.path: value})

    def present(self) -> Q:
        return _EVERYTHING


@dataclass(frozen=True)
class ConstantColumn(EqualityColumn):
    """An attribute with the same value everywhere. condition: whether the attribute is present."""

    value: str | bool
    condition: Q = _EVERYTHING
    refusal = "this attribute can only be compared by eq and ne"

    def equal(self, value: Any) -> Q:
        is_same = str(value).casefold() == str(self.value).casefold()
        return self.condition if is_same else _NOTHING

    def present(self) -> Q:
        return self.condition


Column = TextColumn | IdColumn | BooleanColumn | ConstantColumn


@frozen
class RelatedRows:
    """A multi-valued attribute in another table. rows: its rows for OuterRef("pk"). columns: by
    sub-attribute.
    """

    rows: Callable[[], QuerySet]
    columns: Mapping[str, Column]

    def exists(self, condition: Q) -> Q:
        return Q(Exists(self.rows().filter(condition)))


@frozen
class ColumnMap:
    """The columns of a resource by attribute and sub-attribute, its multi-valued attributes, and the
    attributes to sort by.
    """

    columns: Mapping[Key, Column]
    related: Mapping[str, RelatedRows]
    sortable: Mapping[Key, str]


class _LogicVisitor(FilterVisitor[Q]):
    def visit_not(self, node: Not) -> Q:
        return ~self.visit(node.expr)

    def visit_logical_expr(self, node: LogicalExpr) -> Q:
        conditions = [self.visit(term) for term in node.terms]
        return Q(*conditions, _connector=Q.AND if node.op == LogicalOperator.and_ else Q.OR)


class _ConditionVisitor(_LogicVisitor):
    def __init__(self, scim_filter: ScimFilter, column_map: ColumnMap):
        self.filter, self.map = scim_filter, column_map

    def visit_comparison(self, node: Comparison) -> Q:
        binding = self.filter.resolve_comparison(node.attr_path)
        name, sub_name = binding.field_name, binding.sub_field_name
        if name in self.map.related:
            return _related_condition(self.map.related[name], sub_name or "value", node)
        return _compare(self._column(name, sub_name), node)

    def visit_present(self, node: Present) -> Q:
        binding = self.filter.resolve(node.attr_path)
        name, sub_name = binding.field_name, binding.sub_field_name
        if name in self.map.related:
            return self.map.related[name].exists(_EVERYTHING)
        return self._column(
            name, sub_name or ("value" if (name, "value") in self.map.columns else None)
        ).present()

    def visit_value_path(self, node: ValuePath) -> Q:
        name = self.filter.resolve(node.attr_path).field_name
        if name in self.map.related:
            related = self.map.related[name]
            return related.exists(_ItemVisitor(related.columns).visit(node.val_filter))
        columns = {
            sub_name: column
            for (other, sub_name), column in self.map.columns.items()
            if other == name and sub_name
        }
        if not columns:
            raise InvalidFilterException(detail=f"the filter cannot select values of {node.attr_path}")
        return columns["value"].present() & _ItemVisitor(columns).visit(node.val_filter)

    def _column(self, name: str, sub_name: str | None) -> Column:
        column = self.map.columns.get((name, sub_name))
        if column is None:
            raise InvalidFilterException(
                detail=f"the filter cannot test {name}{f'.{sub_name}' if sub_name else ''}"
            )
        return column


class _ItemVisitor(_LogicVisitor):
    """Translate the filter in the brackets of a value path."""

    def __init__(self, columns: Mapping[str, Column]):
        self.columns = columns

    def visit_comparison(self, node: Comparison) -> Q:
        return _compare(self._column(node.attr_path.attr), node)

    def visit_present(self, node: Present) -> Q:
        return self._column(node.attr_path.attr).present()

    def _column(self, name: str) -> Column:
        column = self.columns.get(name.lower())
        if column is None:
            raise InvalidFilterException(detail=f"the filter cannot test {name}")
        return column


def _compare(column: Column, node: Comparison) -> Q:
    if node.value is None:
        if node.op not in (CompareOperator.eq, CompareOperator.ne):
            raise InvalidFilterException(detail="null can only be compared by eq and ne")
        return ~column.present() if node.op == CompareOperator.eq else column.present()
    return column.compare(node.op, node.value)


def _related_condition(related: RelatedRows, sub_name: str, node: Comparison) -> Q:
    if sub_name not in related.columns:
        raise InvalidFilterException(detail=f"the filter cannot test {sub_name}")
    column = related.columns[sub_name]
    if node.op == CompareOperator.ne:
        # no value equals the operand
        return ~related.exists(_compare(column, Comparison(node.attr_path, CompareOperator.eq, node.value)))
    return related.exists(_compare(column, node))


def id_from_text(text: str) -> int | None:
    """Return the primary key for a SCIM id; None if no row can have it."""
    return (
        int(text) if text.isascii() and text.isdigit() and len(text) <= 18 and not (text[0] == "0") else None
    )


def filter_condition(model: type, text: str, column_map: ColumnMap) -> Q:
    """Return the condition for a filter.

    Raise InvalidFilterException if the filter is malformed or too long.
    """
    if len(text) > MAX_FILTER_CHARACTERS or max(text.count("("), text.count("[")) > MAX_NESTING:
        raise InvalidFilterException(
            detail=f"the filter has more than {MAX_FILTER_CHARACTERS:,} characters or {MAX_NESTING} "
            f"parentheses"
        )
    try:
        scim_filter = ScimFilter[model](text)  # type: ignore[valid-type]
        return _ConditionVisitor(scim_filter, column_map).visit(scim_filter.ast)
    except SCIMException:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidFilterException(detail=f"the filter is malformed: {error}"[:200]) from None


def member_condition(val_filter: Any, columns: Mapping[str, Column]) -> Q:
    """Return the condition on the rows of a multi-valued attribute for the filter in the brackets of a PATCH
    path.
    """
    return _ItemVisitor(columns).visit(val_filter)


def sort_order(model: type, text: str, column_map: ColumnMap, *, is_descending: bool) -> OrderBy:
    """Return the order for `sortBy`. Rows without a value come last, or first in descending order.

    Raise InvalidPathException if lists cannot be sorted by this attribute.
    """
    try:
        binding = Path[model](text).resolve()  # type: ignore[valid-type]
    except (SCIMException, ValueError):
        binding = None
    key = (binding.field_name, binding.sub_field_name) if binding else None
    if key is not None and (key[0], "value") in column_map.sortable:
        # `emails` is sorted by `emails.value`
        key = (key[0], key[1] or "value")
    column = column_map.sortable.get(key) if key else None
    if column is None:
        raise InvalidPathException(detail=f"lists cannot be sorted by {text[:100]!r}")
    can_be_missing = isinstance(column_map.columns.get(key), TextColumn) and column not in REQUIRED
    value = NullIf(F(column), Value("")) if can_be_missing else F(column)
    return value.desc(nulls_first=True) if is_descending else value.asc(nulls_last=True)
