"""Fields of a time in the past or the future, and of a revision."""

from collections.abc import Callable
from datetime import datetime

from rest_framework import serializers

from authzconsole.common.fields import Text
from grants.history import AsOfError, parse_as_of, parse_at


class _MomentField(Text):
    """A text that `parse` turns into a time or a revision."""

    parse: Callable[[str], datetime | int]

    def __init__(self, **options):
        super().__init__(max_length=40, **options)

    def run_validation(self, data=serializers.empty):
        text = super().run_validation(data)
        if not isinstance(text, str):
            return text
        try:
            return self.parse(text)
        except AsOfError as error:
            raise serializers.ValidationError(str(error)) from None


class AtTime(_MomentField):
    """The time that a question is about: an RFC 3339 time with a zone."""

    parse = staticmethod(parse_at)


class AsOf(_MomentField):
    """A revision of the journal, or a time in the past; the validated value is a revision."""

    parse = staticmethod(parse_as_of)
