"""Answer questions about the past: periods derived from the journal, and views that put them in place of the
tables.

The models are in `grants.models.history`. Decisions and lists about the past use the evaluators of the
present, inside `as_of`.
"""

from grants.history.errors import AsOfError, HistoryError, HistoryNotReady
from grants.history.known import KnownSince, known_since
from grants.history.moments import NOW, Moment, parse_as_of, parse_at, parse_moment, revision_time
from grants.history.past import as_of, at_moment, past_revision

__all__ = [
    "NOW",
    "AsOfError",
    "HistoryError",
    "HistoryNotReady",
    "KnownSince",
    "Moment",
    "as_of",
    "at_moment",
    "known_since",
    "parse_as_of",
    "parse_at",
    "parse_moment",
    "past_revision",
    "revision_time",
]
