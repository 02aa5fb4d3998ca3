"""Find the times within a requested period at which an operation is not permitted."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.utils import timezone

from grants.evaluation.engine import check_many
from grants.models import Belonging, GroupGrant, User, UserGrant
from grants.policies.question import Question
from grants.validity import at_time, question_time

# each is one query
MAX_TIMES = 100


def last_moment(until: datetime | None) -> datetime:
    """Return the last second of access that ends then; without an end, a time in the distant future."""
    return until - timedelta(seconds=1) if until else timezone.now() + timedelta(days=36_500)


def first_denials(
    questions: Sequence[Question], subject: User, until: datetime | None
) -> list[datetime | None]:
    """Return for each question the first time from now until then at which it is denied; None if it is
    permitted throughout.

    Only the end of a grant or a membership takes a permission away, so the questions are asked now, at each
    such end, and at the last second. Runs one query if all are denied now. Otherwise runs one more query for
    each further time that is needed, and one for the list of ends. After MAX_TIMES ends, the next one counts
    as a denial, because it was not checked.
    """
    now, last = question_time(), last_moment(until)
    denials: list[datetime | None] = [None] * len(questions)
    _ask(questions, denials, now)
    if not all(denials):
        _ask(questions, denials, last)
    if all(denials):
        return denials
    ends = _ends(subject, now, last)
    for time in ends[:MAX_TIMES]:
        if all(denials):
            return denials
        _ask(questions, denials, time)
    unchecked = ends[MAX_TIMES] if len(ends) > MAX_TIMES else None
    return [denial or unchecked for denial in denials]


def _ask(questions: Sequence[Question], denials: list[datetime | None], time: datetime) -> None:
    """Ask the questions that have no denial yet at this time, and note the time for those that are denied."""
    open_questions = [number for number, denial in enumerate(denials) if denial is None]
    with at_time(time):
        for number, decision in zip(
            open_questions, check_many([questions[number] for number in open_questions]), strict=True
        ):
            if not decision.is_permitted:
                denials[number] = time


def _ends(subject: User, after: datetime, until: datetime) -> list[datetime]:
    """Return the times at which a grant or a membership of the subject, or a grant of one of its groups,
    ends, in order.

    Returns at most one more than MAX_TIMES. Runs one query.
    """
    groups = Belonging.objects.filter(user=subject).values("group")
    ends = (
        rows.filter(valid_until__gt=after, valid_until__lte=until).order_by().values_list("valid_until")
        for rows in (
            UserGrant.held.filter(user=subject),
            Belonging.objects.filter(user=subject),
            GroupGrant.held.filter(group__in=groups),
        )
    )
    grants, memberships, of_groups = ends
    return [end for (end,) in grants.union(memberships, of_groups).order_by("valid_until")[: MAX_TIMES + 1]]
