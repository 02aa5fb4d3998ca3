"""Strict serializers and fields. Fields do not convert types, and serializers refuse unknown members."""

from collections.abc import Callable

from django.core.validators import RegexValidator
from rest_framework import serializers

from entities.address import parse_address, parse_grantable
from entities.errors import Refusal
from entities.text import storage_fault
from entities.vocabulary import KINDS, Privilege, clip
from grants.errors import PrincipalError
from grants.policies.catalogue import GENERATIONS
from grants.policies.times import TimeError, is_time, parse_time
from grants.principal_names import MAX_NAME_CHARACTERS, MAX_REASON_CHARACTERS, name_fault, parse_principal

MAX_INTEGER = 2**63 - 1
MAX_ADDRESS_CHARACTERS = 600
# of one object; together with the limits of lists, this bounds the length of an error response
MAX_UNKNOWN_MEMBERS = 5
NAME_CHARACTERS = r"[^\x00-\x1f\x7f-\x9f]+"


class ErrorMessages:
    """Error messages that complete the sentence "FIELD: ...", in place of those of Django REST framework."""

    default_error_messages = {
        "required": "this member is required",
        "null": "this must not be null",
        "blank": "this must not be empty",
        "max_length": "this is longer than the limit of {max_length:,} characters",
        "min_length": "this is shorter than the minimum of {min_length:,} characters",
        "max_value": "this must be {max_value} or less",
        "min_value": "this must be {min_value} or more",
    }


class StrictSerializer(ErrorMessages, serializers.Serializer):
    """A JSON object. Unknown members are refused; the error lists the first MAX_UNKNOWN_MEMBERS of them."""

    default_error_messages = {"invalid": "this must be an object"}

    def to_internal_value(self, data):
        if isinstance(data, dict) and (unknown := sorted(set(data) - set(self.fields))):
            known = ", ".join(self.fields) or "none"
            raise serializers.ValidationError(
                {
                    clip(name): [f"unknown member; the known members are {known}"]
                    for name in unknown[:MAX_UNKNOWN_MEMBERS]
                }
            )
        return super().to_internal_value(data)


class QuerySerializer(StrictSerializer):
    """Filters and query parameters. A field is optional unless it states `required=True`."""

    def get_fields(self):
        fields = super().get_fields()
        for field in fields.values():
            field.required = field._kwargs.get("required", False)
        return fields


class DocumentedPattern(RegexValidator):
    """A pattern for the OpenAPI document that every valid value matches.

    The field itself checks more and names the fault.
    """

    def __call__(self, value: object) -> None:
        pass


class Text(ErrorMessages, serializers.CharField):
    """A string. It must not be empty, unless `allow_blank` is set."""

    def __init__(self, *, pattern: str = "", **options):
        if not options.get("allow_blank"):
            options.setdefault("min_length", 1)
        super().__init__(trim_whitespace=False, **options)
        if pattern:
            self.validators.append(DocumentedPattern(pattern))

    def to_internal_value(self, data):
        if not isinstance(data, str):
            raise serializers.ValidationError("this must be a string")
        if fault := storage_fault(data):
            raise serializers.ValidationError(fault)
        return data


class Record(ErrorMessages, serializers.DictField):
    """An object with unchecked members.

    A service checks them, so that it can name the position of a fault.
    """

    default_error_messages = {"not_a_dict": "this must be an object"}


class Boolean(ErrorMessages, serializers.BooleanField):
    def to_internal_value(self, data):
        if not isinstance(data, bool):
            raise serializers.ValidationError("this must be true or false")
        return data


class Integer(ErrorMessages, serializers.IntegerField):
    def __init__(self, *, min_value=0, max_value=MAX_INTEGER, **options):
        super().__init__(min_value=min_value, max_value=max_value, **options)

    def to_internal_value(self, data):
        if isinstance(data, bool) or not isinstance(data, int):
            raise serializers.ValidationError("this must be an integer")
        return data


class QueryBoolean(ErrorMessages, serializers.BooleanField):
    """A boolean in a URL: `true` or `false`."""

    def to_internal_value(self, data):
        if data not in ("true", "false"):
            raise serializers.ValidationError("this must be true or false")
        return data == "true"


class QueryInteger(Integer):
    def to_internal_value(self, data):
        if not (data.isascii() and data.isdigit() and len(data) < 20):
            raise serializers.ValidationError("this must be an integer")
        return super().to_internal_value(int(data))


class ParsedText(Text):
    """A string. The validated value is what `parse` returns, which raises Refusal or ValidationError."""

    parse: Callable[[str], object]

    def run_validation(self, data=serializers.empty):
        text = super().run_validation(data)
        if not isinstance(text, str) or not text:
            return text
        try:
            return self.parse(text)
        except Refusal as error:
            raise serializers.ValidationError(str(error)) from None


class AddressText(ParsedText):
    """The address of an entity; the validated value is an `Address`."""

    parse = staticmethod(parse_address)

    def __init__(self, **options):
        options.setdefault("help_text", "An address, written `KIND:NAME`, such as `dataset:sales.orders`.")
        super().__init__(max_length=MAX_ADDRESS_CHARACTERS, pattern=r"^[A-Za-z][A-Za-z0-9_]*:\S+$", **options)


class GrantableText(AddressText):
    """What grants are on: an address, or a pattern of addresses; the validated value is an `Address`."""

    parse = staticmethod(parse_grantable)

    def __init__(self, **options):
        options.setdefault(
            "help_text",
            "An address, such as `dataset:sales.orders`, or a pattern of addresses, such as `dataset:sales.*`.",
        )
        super().__init__(**options)


class PrincipalText(Text):
    """A principal, written `user:NAME`, `group:NAME` or `role:NAME`."""

    def __init__(self, **options):
        options.setdefault("help_text", "A principal, written `user:NAME`, `group:NAME` or `role:NAME`.")
        super().__init__(
            max_length=MAX_NAME_CHARACTERS + len("group:"),
            pattern=f"^(?:user|group|role):{NAME_CHARACTERS}$",
            **options,
        )

    def to_internal_value(self, data):
        text = super().to_internal_value(data)
        try:
            parse_principal(text)
        except PrincipalError as error:
            raise serializers.ValidationError(str(error)) from None
        return text


class NameText(Text):
    """The name of a user or group."""

    def __init__(self, **options):
        super().__init__(max_length=MAX_NAME_CHARACTERS, pattern=f"^{NAME_CHARACTERS}$", **options)

    def to_internal_value(self, data):
        name = super().to_internal_value(data)
        if fault := name_fault(name):
            raise serializers.ValidationError(fault)
        return name


class KindText(Text):
    def to_internal_value(self, data):
        kind = super().to_internal_value(data)
        if kind not in KINDS:
            raise serializers.ValidationError(
                f"`{clip(kind)}` is not a kind of entity; the kinds are {', '.join(KINDS)}"
            )
        return kind


class Choice(ErrorMessages, serializers.ChoiceField):
    """One of a fixed set of words; case matters."""

    def to_internal_value(self, data):
        if not isinstance(data, str) or data not in self.choices:
            raise serializers.ValidationError(
                f"`{clip(data)}` is not one of {', '.join(map(str, self.choices))}"
            )
        return data


class List(ErrorMessages, serializers.ListField):
    default_error_messages = {
        "not_a_list": "this must be a list",
        "empty": "this must not be empty",
        "max_length": "this has more items than the limit of {max_length:,}",
        "min_length": "this must have at least {min_length:,} items",
    }

    def to_internal_value(self, data):
        # Before the items are validated. Django REST framework checks it afterwards, and then each invalid
        # item is an error.
        if isinstance(data, list) and self.max_length is not None and len(data) > self.max_length:
            self.fail("max_length", max_length=self.max_length)
        return super().to_internal_value(data)


class Time(ErrorMessages, serializers.DateTimeField):
    """An RFC 3339 time with a zone."""

    default_error_messages = {"invalid": "this must be a time such as 2026-02-01T08:00:00Z"}

    def to_internal_value(self, value):
        if not isinstance(value, str):
            raise serializers.ValidationError("this must be a string")
        if not is_time(value.strip()):
            self.fail("invalid")
        try:
            return parse_time(value)
        except TimeError as error:
            raise serializers.ValidationError(str(error)) from None


class TimeOrRevision(ParsedText):
    """A time, or a revision of the journal; the validated value is a `datetime` or an `int`."""

    def __init__(self, **options):
        super().__init__(max_length=40, **options)

    def parse(self, text):
        if text.isascii() and text.isdigit() and len(text) < 19:
            return int(text)
        try:
            return Time().run_validation(text)
        except serializers.ValidationError:
            raise serializers.ValidationError(
                "this must be a time such as 2026-02-01T08:00:00Z, or a revision such as 812"
            ) from None


def privilege_list(**options) -> List:
    return List(
        child=Choice(choices=list(map(str, Privilege))), min_length=1, max_length=len(Privilege), **options
    )


def optional_text(help_text: str, max_length: int = MAX_REASON_CHARACTERS) -> Text:
    """Return the field of a text that may be empty, and is by default."""
    return Text(allow_blank=True, default="", max_length=max_length, help_text=help_text)


def reason_field() -> Text:
    return optional_text("The reason; it is written to the journal.")


class ReasonQuery(QuerySerializer):
    """Why something ends or is cancelled."""

    reason = reason_field()


def generation_field(help_text: str = "By default the active generation.") -> Choice:
    return Choice(choices=list(GENERATIONS), required=False, help_text=help_text)
