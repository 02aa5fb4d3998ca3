"""Define the errors of questions about the past."""

from entities.errors import Refusal


class HistoryError(Refusal, ValueError):
    """A question about the past cannot be answered. The message says why."""


class AsOfError(HistoryError):
    """The revision or time is malformed, before the first journal line, or in the future."""


class HistoryNotReady(HistoryError):
    """The periods do not contain the revision yet, because very many lines were added.

    A periodic task adds them.
    """

    status = 503
    retry_after = 60
