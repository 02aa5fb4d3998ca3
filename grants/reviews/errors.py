"""The error of access reviews."""

from grants.errors import GrantError


class ReviewError(GrantError):
    """A campaign or an answer is invalid, or not possible in the current state. field: the input at fault, if
    there is one.
    """

    def __init__(self, message: str, *, field: str = ""):
        self.field, self.status = field, 400 if field else 409
        super().__init__(message)
