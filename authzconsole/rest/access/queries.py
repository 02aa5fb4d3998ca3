"""The query parameters that the lists of access share, and the serializers of their rows."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager

from rest_framework import serializers

from authzconsole.common.fields import Choice
from authzconsole.rest.framework.past import AsOf, AtTime, MomentQuery, moment_of_query
from entities.vocabulary import KINDS, Privilege, clip
from grants.access.requirements import UnknownOperation, check_operation
from grants.active_generation import active_generation
from grants.history import at_moment
from grants.policies.catalogue import GENERATIONS, generation_by_name
from grants.policies.policy import Generation
from grants.validity import iterate_at_time

TAG = "Access"
PRIVILEGES = list(map(str, Privilege))


class QuestionQuery(MomentQuery):
    """The rules and the time that a list is about."""

    generation = Choice(
        choices=list(GENERATIONS), required=False, help_text="By default the active generation."
    )
    as_of = AsOf(
        required=False, help_text="Answer with the state after this revision of the journal, or at this time."
    )
    at = AtTime(
        required=False,
        help_text="Answer with the grants and memberships that are valid at this time, such as "
        "`2026-12-01T00:00:00Z`. By default now, or the time of `as_of`. For administrators "
        "and auditors.",
    )


class PathSerializer(serializers.Serializer):
    """A grant by which an operation is permitted."""

    principal = serializers.CharField(help_text="The user itself, or one of its groups.")
    entity = serializers.CharField()
    privilege = serializers.ChoiceField(PRIVILEGES)


class WaysSerializer(serializers.Serializer):
    operation = serializers.CharField()
    rule = serializers.CharField(
        help_text="The rule of the operation in the generation, in words, such as `READ on the entity`."
    )
    paths = PathSerializer(
        many=True,
        help_text="The grants by which the operation is permitted, one for each way, sorted. "
        "Empty if it needs no grant.",
    )
    only = PathSerializer(many=True, help_text="The paths without which the operation would be denied.")
    complete = serializers.BooleanField(
        help_text="False if a container has so many grants inside that `paths` has only the first ones; the downloads have all."
    )


def state_of(query: dict) -> AbstractContextManager[None]:
    """Return a context manager. Inside, questions are answered for the state and the time of the query."""
    return at_moment(moment_of_query(query))


def rows_in_state(query: dict, rows: Iterable) -> Iterator:
    """Yield the rows in the state and at the time of the query. They are read while the response is sent."""
    moment = moment_of_query(query)
    if moment.revision is None:
        yield from iterate_at_time(moment.at, rows)
        return
    with at_moment(moment):
        yield from rows


def generation_of(query: dict) -> Generation:
    return generation_by_name(query["generation"]) if "generation" in query else active_generation()


def check_operation_of(query: dict, kind: str = "") -> None:
    """Raise ValidationError if the kind does not have the operation of the query. kind: empty for any kind."""
    operation = query.get("operation")
    if operation is None:
        return
    try:
        if kind:
            check_operation(kind, operation)
        elif operation not in Privilege.__members__ and not any(
            operation in kind.operations for kind in KINDS.values()
        ):
            raise UnknownOperation(f"`{clip(operation)}` is not an operation of any kind")
    except UnknownOperation as error:
        raise serializers.ValidationError({"operation": [str(error)]}) from None
