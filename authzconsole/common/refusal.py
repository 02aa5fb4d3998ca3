"""The exception for a request that an endpoint refuses."""


class RequestRefused(Exception):
    """A refused request: the HTTP status, a message of one sentence, and headers, with `_` in place of `-` in
    their names.
    """

    def __init__(self, status: int, message: str, **headers: str):
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__(message)
