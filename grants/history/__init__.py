"""Answer questions about the past: periods derived from the journal, and views that put them in place of the
tables.

The models are in `grants.models.history`. Decisions and lists about the past use the evaluators of the
present, inside `as_of`.
"""

from grants.history.differences import GAINED, LOST, Span, all_differences, as_differences, difference_parts
from grants.history.errors import AsOfError, HistoryError, HistoryNotReady
from grants.history.known import KnownSince, known_since
from grants.history.memberships import latest_membership_lines
from grants.history.moments import (
    NOW,
    Moment,
    first_revisions,
    parse_as_of,
    parse_at,
    parse_moment,
    revision_time,
    time_of_as_of,
)
from grants.history.past import as_of, at_moment, past_revision
from grants.history.periods import catch_up, rebuild
from grants.history.questions import MAX_MOMENTS, group_by_moment, has_moment, moment_of
