"""Define the base of the errors with which all packages refuse a request."""

from collections.abc import Mapping


class Refusal(Exception):
    """A request is refused, and nothing was written. The message says what is wrong, where, and how to correct it.

    An HTTP interface answers with these attributes (`authzconsole.common.problems`):
    status: the status. problem_type: the last part of the problem type (RFC 9457); empty for the type of the
    status. field: the member of the request at fault; empty if there is not exactly one. retry_after: the
    seconds after which the request can be repeated; 0 if they are unknown. members: further members of the
    problem document.
    """

    status = 400
    problem_type = ""
    field = ""
    retry_after = 0
    members: Mapping[str, object] = {}

    def __init__(self, message: str = "", *, field: str = ""):
        if field:
            self.field = field
        super().__init__(message)

    @property
    def detail(self) -> str:
        """The sentence of the response."""
        return str(self)
