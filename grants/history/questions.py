"""Group requests by the state and the time that they ask about (`context.as_of` and `context.at`)."""

from collections.abc import Sequence

from grants.history.errors import AsOfError
from grants.history.moments import NOW, Moment, parse_moment
from grants.policies.question import QuestionError

# each revision of a request costs some milliseconds, and each time a query
MAX_MOMENTS = 50
_MEMBERS = ("as_of", "at")


def has_moment(body: object) -> bool:
    """Return whether a request in JSON names a state or a time."""
    return any(value is not None for value in _members(body))


def moment_of(body: object) -> Moment:
    """Return the state and the time that a request asks about. Raise QuestionError if they are invalid."""
    as_of, at = _members(body)
    if as_of is None and at is None:
        return NOW
    try:
        return parse_moment(as_of, at)
    except AsOfError as error:
        raise QuestionError(f"`context.{'at' if as_of is None else 'as_of'}`: {error}") from None


def group_by_moment(
    bodies: Sequence[object],
    max_moments: int | None,
) -> tuple[dict[Moment, list[int]], dict[int, QuestionError]]:
    """Return the positions of the requests by moment, and the errors of those without a valid one, by
    position.

    Requests that name no time are about the same one. Equal members are parsed once. Raise QuestionError if
    the requests ask about more than `max_moments`.
    """
    moments: dict[tuple, Moment | QuestionError] = {}
    positions: dict[Moment, list[int]] = {}
    errors: dict[int, QuestionError] = {}
    for position, body in enumerate(bodies):
        # values of other types are refused with the same message
        key = tuple(
            (type(value), value if isinstance(value, str | int) else None) for value in _members(body)
        )
        if key not in moments:
            if max_moments is not None and len(moments) > max_moments:
                raise QuestionError(
                    f"one request can ask about at most {max_moments} revisions and times: send several requests"
                )
            moments[key] = _moment_or_error(body)
        moment = moments[key]
        if isinstance(moment, QuestionError):
            errors[position] = moment
        else:
            positions.setdefault(moment, []).append(position)
    return positions, errors


def _members(body: object) -> tuple[object, object]:
    """Return the members `as_of` and `at` of the context; None where there is none, or if the request is
    malformed.
    """
    context = body.get("context") if isinstance(body, dict) else None
    as_of, at = (context.get(name) if isinstance(context, dict) else None for name in _MEMBERS)
    return as_of, at


def _moment_or_error(body: object) -> Moment | QuestionError:
    try:
        return moment_of(body)
    except QuestionError as error:
        return error
