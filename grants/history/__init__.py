"""Answer questions about the past: periods derived from the journal, and views that put them in place of the tables.

The models are in `grants.history_models`. Decisions and lists about the past use the evaluators of the present, inside `as_of`.
"""

from grants.history.errors import AsOfError, HistoryError, HistoryNotReady
from grants.history.known import KnownSince, known_since
from grants.history.moments import parse_as_of, parse_at, revision_time
from grants.history.past import as_of, past_revision

__all__ = ["AsOfError", "HistoryError", "HistoryNotReady", "KnownSince", "as_of", "known_since", "parse_as_of", "parse_at",
           "past_revision", "revision_time"]
