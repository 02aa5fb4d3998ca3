"""Group requests by the revision that they ask about (`context.as_of`)."""

from collections.abc import Sequence

from grants.history.errors import AsOfError
from grants.history.moments import parse_as_of
from grants.policies.question import QuestionError

# each revision of a request costs some milliseconds
MAX_REVISIONS = 50


def as_of_member(body: object) -> object:
    """Return the member `context.as_of` of a request in JSON; None if there is none, or if the request is malformed."""
    context = body.get("context") if isinstance(body, dict) else None
    return context.get("as_of") if isinstance(context, dict) else None


def revision_of(body: object) -> int | None:
    """Return the revision that a request asks about; None for the present. Raise QuestionError if there is no such revision."""
    member = as_of_member(body)
    if member is None:
        return None
    try:
        return parse_as_of(member)
    except AsOfError as error:
        raise QuestionError(f"`context.as_of`: {error}") from None


def group_by_revision(bodies: Sequence[object], max_revisions: int | None = MAX_REVISIONS,
                      ) -> tuple[dict[int | None, list[int]], dict[int, QuestionError]]:
    """Return the positions of the requests by revision, and the errors of those without a valid one, by position.

    Each different member is parsed once. Raise QuestionError if the requests ask about more than `max_revisions`.
    """
    revisions: dict[tuple[type, object], int | None | QuestionError] = {}
    positions: dict[int | None, list[int]] = {}
    errors: dict[int, QuestionError] = {}
    for position, body in enumerate(bodies):
        member = as_of_member(body)
        # other types are refused with the same message
        key = type(member), member if isinstance(member, str | int) else None
        if key not in revisions:
            if max_revisions is not None and len(revisions) > max_revisions:
                raise QuestionError(f"one request can ask about at most {max_revisions} revisions: send several requests")
            revisions[key] = _revision_or_error(body)
        revision = revisions[key]
        if isinstance(revision, QuestionError):
            errors[position] = revision
        else:
            positions.setdefault(revision, []).append(position)
    return positions, errors


def _revision_or_error(body: object) -> int | None | QuestionError:
    try:
        return revision_of(body)
    except QuestionError as error:
        return error
