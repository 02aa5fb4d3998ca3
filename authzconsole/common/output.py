"""Serializers of what the console sends: the members of a JSON object, declared once.

An `Output` writes the object, describes it in the OpenAPI document, and has an example. Its members have the
order of its fields.
"""

from collections.abc import Callable, Mapping
from functools import cache, cached_property, reduce
from typing import Any

from rest_framework import serializers

# the example of a member that states none, by its name
EXAMPLES = {
    "account": "admin",
    "actor": "admin",
    "address": "dataset:sales.orders",
    "created_by": "admin",
    "entity": "dataset:sales.orders",
    "generation": "final",
    "group": "marketing-analytics",
    "kind": "dataset",
    "made_by": "admin",
    "namespace": "namespace:sales",
    "number": 12,
    "operation": "read",
    "principal": "user:sofia.lindqvist",
    "privilege": "READ",
    "reason": "quarterly close",
    "request_id": "5f0c1d3c6e7a4f1f9a8f2b7f3f0c9d11",
    "revision": 812,
    "rule": "READ on the entity",
    "user": "sofia.lindqvist",
}
TIME_EXAMPLE = "2026-02-01T08:00:00Z"
_NO_EXAMPLE = object()
_MISSING = object()


class Member:
    """What every field of an `Output` has.

    get: returns the value of the member; by default it is the attribute or item with the name of `source`.
    example: the value in examples; by default null if the member can be null, otherwise by name and type.
    """

    def __init__(
        self,
        *args,
        get: Callable[[Any], object] | None = None,
        example: object = _NO_EXAMPLE,
        **options,
    ):
        self.get, self.example = get, example
        super().__init__(*args, **options)


class Text(Member, serializers.CharField):
    """A text. If it may be null, an empty text is null."""

    def to_representation(self, value: object) -> str | None:
        return str(value) or (None if self.allow_null else "")


class Choice(Member, serializers.ChoiceField):
    """One of a fixed set of words. If it may be null, an empty text is null."""

    to_representation = Text.to_representation


class Integer(Member, serializers.IntegerField):
    def to_representation(self, value: int) -> int:
        return value


class Boolean(Member, serializers.BooleanField):
    def to_representation(self, value: object) -> bool:
        return bool(value)


class Time(Member, serializers.DateTimeField):
    """A time in UTC. timespec: the precision, as for `datetime.isoformat`."""

    def __init__(self, *, timespec: str = "auto", **options):
        self.timespec = timespec
        super().__init__(**options)

    def to_representation(self, value) -> str:
        return value.isoformat(timespec=self.timespec).replace("+00:00", "Z")


class Date(Member, serializers.DateField):
    pass


class Texts(Member, serializers.ListField):
    """A list of texts. words: all that can be in it."""

    def __init__(self, words: list[str] | None = None, **options):
        child = serializers.CharField() if words is None else serializers.ChoiceField(words)
        super().__init__(child=child, **options)

    def to_representation(self, value) -> list[str]:
        return list(map(str, value))


class Numbers(Member, serializers.ListField):
    """A list of integers."""

    def __init__(self, **options):
        super().__init__(child=serializers.IntegerField(), **options)


class Record(Member, serializers.DictField):
    """An object with members that are not described."""

    def to_representation(self, value: dict) -> dict:
        return value


class _InBodyOrder(serializers.SerializerMetaclass):
    """Keep the order of the class body, so that a field can be declared once and used in several outputs."""

    def __new__(cls, name, bases, attributes):
        names = list(attributes)
        output = super().__new__(cls, name, bases, attributes)
        fields = output._declared_fields
        own = {member: fields[member] for member in names if member in fields}
        output._declared_fields = {
            member: field for member, field in fields.items() if member not in own
        } | own
        return output


class Output(Member, serializers.Serializer, metaclass=_InBodyOrder):
    """A JSON object. Subclasses declare its members as fields of this module, or as other outputs."""

    @classmethod
    def data_of(cls, value: object) -> dict:
        """Return the JSON object of a value, or of a mapping with the values of the members."""
        return _shared(cls).to_representation(value)

    @classmethod
    def example_of(cls, **members: object) -> dict:
        """Return an example. members: those that differ from the examples of the fields."""
        return example_of(cls) | members

    def to_representation(self, value: object) -> dict:
        content = {}
        for name, read, write in self._members:
            member = read(value)
            if member is not _MISSING:
                content[name] = None if member is None else write(member)
        return content

    @cached_property
    def _members(self) -> list[tuple[str, Callable, Callable]]:
        """The name of each member, and functions that read and write it.

        The methods of Django REST framework do the same, at three times the cost of a long list.
        """
        return [(name, _reader(field), field.to_representation) for name, field in self.fields.items()]


@cache
def _shared(output: type[Output]) -> Output:
    """Return an instance that all threads share. It has no state."""
    return output()


def _reader(field: serializers.Field) -> Callable[[Any], object]:
    get = getattr(getattr(field, "child", None), "get", None) or getattr(field, "get", None)
    if get is not None:
        return get
    if field.source == "*":
        return lambda value: value
    first, is_required = field.source_attrs[0], field.required
    if len(field.source_attrs) > 1:
        # such as `requested_by.username`; null if an object before the last member is
        return lambda value: reduce(
            lambda owner, name: None if owner is None else getattr(owner, name), field.source_attrs, value
        )

    def read_member(value: object) -> object:
        if isinstance(value, Mapping):
            return value[first] if is_required or first in value else _MISSING
        return getattr(value, first) if is_required else getattr(value, first, _MISSING)

    return read_member


def example_of(serializer: type[serializers.BaseSerializer]) -> dict:
    """Return the example of a serializer. Members that may be missing are left out."""
    return {name: _example(name, field) for name, field in serializer().fields.items() if field.required}


def _example(name: str, field: serializers.Field) -> object:
    stated = getattr(getattr(field, "child", field), "example", _NO_EXAMPLE)
    if isinstance(field, Member) and field.example is not _NO_EXAMPLE:
        stated = field.example
    match field:
        case _ if stated is not _NO_EXAMPLE:
            return stated
        case serializers.Field(allow_null=True):
            return None
        case serializers.ListSerializer():
            return [example_of(type(field.child))]
        case serializers.BaseSerializer():
            return example_of(type(field))
        case serializers.BooleanField():
            return False
        case serializers.ListField():
            return []
        case serializers.DictField():
            return {}
        case serializers.DateTimeField():
            return TIME_EXAMPLE
        case serializers.ChoiceField():
            return EXAMPLES[name] if EXAMPLES.get(name) in field.choices else next(iter(field.choices))
        case serializers.IntegerField():
            return EXAMPLES.get(name, 0)
    return EXAMPLES.get(name, "")
