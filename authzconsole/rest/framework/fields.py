"""Fields that take what they say and nothing that could be turned into it; shapes that refuse a member which they do
not know."""

from rest_framework import serializers

from entities.address import AddressError, parse_address
from entities.vocabulary import KINDS, Privilege, clip
from grants.errors import PrincipalError
from grants.principal_names import MAX_NAME_CHARACTERS, MAX_REASON_CHARACTERS, name_fault, parse_principal, storage_fault

LARGEST_NUMBER = 2**63 - 1
LONGEST_ADDRESS_CHARACTERS = 600


class Worded:
    """The console's own words in place of the framework's, for every field and shape that takes what was sent."""

    default_error_messages = {
        "required": "this is missing",
        "null": "this must not be null",
        "blank": "this must not be empty",
        "max_length": "this is longer than {max_length:,} characters, which is the limit",
        "min_length": "this is shorter than {min_length:,} characters, which is the least",
        "max_value": "this must be {max_value} or less",
        "min_value": "this must be {min_value} or more",
    }


class Shape(Worded, serializers.Serializer):
    default_error_messages = {"invalid": "this must be an object"}

    def to_internal_value(self, data):
        if isinstance(data, dict) and (unknown := sorted(set(data) - set(self.fields))):
            known = ", ".join(self.fields) or "none"
            raise serializers.ValidationError({clip(name): [f"there is no such member here; there are {known}"]
                                               for name in unknown})
        return super().to_internal_value(data)


class Text(Worded, serializers.CharField):
    def __init__(self, **options):
        super().__init__(trim_whitespace=False, **options)

    def to_internal_value(self, data):
        if not isinstance(data, str):
            raise serializers.ValidationError("this must be a string")
        if fault := storage_fault(data):
            raise serializers.ValidationError(fault)
        return data


class Flag(Worded, serializers.BooleanField):
    def to_internal_value(self, data):
        if not isinstance(data, bool):
            raise serializers.ValidationError("this must be true or false")
        return data


class Whole(Worded, serializers.IntegerField):
    def __init__(self, *, min_value=0, max_value=LARGEST_NUMBER, **options):
        super().__init__(min_value=min_value, max_value=max_value, **options)

    def to_internal_value(self, data):
        if isinstance(data, bool) or not isinstance(data, int):
            raise serializers.ValidationError("this must be an integer")
        return data


class QueryFlag(Worded, serializers.BooleanField):
    """In a URL, where everything is text."""

    def to_internal_value(self, data):
        if data not in ("true", "false"):
            raise serializers.ValidationError("this must be true or false")
        return data == "true"


class QueryWhole(Whole):
    def to_internal_value(self, data):
        if not (data.isascii() and data.isdigit() and len(data) < 20):
            raise serializers.ValidationError("this must be an integer")
        return super().to_internal_value(int(data))


class AddressText(Text):
    """An address; what comes out is an `Address`."""

    def __init__(self, **options):
        super().__init__(max_length=LONGEST_ADDRESS_CHARACTERS, **options)

    def run_validation(self, data=serializers.empty):
        text = super().run_validation(data)
        if not isinstance(text, str) or not text:
            return text
        try:
            return parse_address(text)
        except AddressError as error:
            raise serializers.ValidationError(str(error)) from None


class PrincipalText(Text):
    """`user:NAME` or `group:NAME`."""

    def to_internal_value(self, data):
        text = super().to_internal_value(data)
        try:
            parse_principal(text)
        except PrincipalError as error:
            raise serializers.ValidationError(str(error)) from None
        return text


class NameText(Text):
    """What a user or a group may be called."""

    def __init__(self, **options):
        super().__init__(max_length=MAX_NAME_CHARACTERS, **options)

    def to_internal_value(self, data):
        name = super().to_internal_value(data)
        if fault := name_fault(name):
            raise serializers.ValidationError(fault)
        return name


class KindText(Text):
    def to_internal_value(self, data):
        kind = super().to_internal_value(data)
        if kind not in KINDS:
            raise serializers.ValidationError(f"`{clip(kind)}` is not a kind of entity; the kinds are {', '.join(KINDS)}")
        return kind


class Word(Worded, serializers.ChoiceField):
    """One of a few words, written exactly so."""

    def to_internal_value(self, data):
        if not isinstance(data, str) or data not in self.choices:
            raise serializers.ValidationError(f"`{clip(data)}` is none of {', '.join(map(str, self.choices))}")
        return data


class Several(Worded, serializers.ListField):
    default_error_messages = {
        "not_a_list": "this must be a list",
        "empty": "this must not be empty",
        "max_length": "this holds more than {max_length:,}, which is the limit",
        "min_length": "this must hold at least {min_length:,}",
    }


class Moment(Worded, serializers.DateTimeField):
    default_error_messages = dict.fromkeys(
        ("invalid", "date", "make_aware", "overflow"), "this must be a time such as 2026-02-01T08:00:00Z")

    def to_internal_value(self, value):
        if not isinstance(value, str):
            raise serializers.ValidationError("this must be a string")
        return super().to_internal_value(value)


def privilege_words(**options) -> Several:
    one = Word(choices=list(map(str, Privilege)))
    return Several(child=one, min_length=1, max_length=len(Privilege), **options)


def reason_text() -> Text:
    return Text(required=False, allow_blank=True, default="", max_length=MAX_REASON_CHARACTERS,
                help_text="Why; it stands in the journal.")
