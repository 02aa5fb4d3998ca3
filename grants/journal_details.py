"""Write and read the `detail` of journal lines about grants and memberships: the period, the earlier period,
and the rest.
"""

import re
from typing import NamedTuple

from grants.validity import Validity, format_period, parse_period

_WITHOUT_LIMITS = "without limits"
_BEFORE = re.compile(rf"before ({_WITHOUT_LIMITS}|valid \S+/\S+?)(?:; |$)")


class PeriodDetail(NamedTuple):
    """The content of a detail. before: the period that the line replaced, or None. rest: such as `plan 7` or
    `group:NAME`.
    """

    period: Validity
    before: Validity | None
    rest: str


def period_detail(period: Validity, rest: str = "", *, before: Validity | None = None) -> str:
    """Return the detail of a line. It is only `rest` for a new grant or membership without limits.

    Example: `valid ../2026-12-05T16:00:00Z; before without limits; plan 7`.
    """
    if before is not None:
        rest = "; ".join(filter(None, (f"before {format_period(before) or _WITHOUT_LIMITS}", rest)))
    return format_period(period, rest)


def parse_detail(detail: str) -> PeriodDetail:
    """Return the content of the detail of a line about a grant or a membership.

    Lines of all versions can be read.
    """
    period, rest = parse_period(detail)
    if (match := _BEFORE.match(rest)) is None:
        return PeriodDetail(period, None, rest)
    before = Validity() if match[1] == _WITHOUT_LIMITS else parse_period(match[1])[0]
    return PeriodDetail(period, before, rest[match.end() :])
