class Refused(Exception):
    """A request that is not answered: the status, one sentence, and the headers that belong to the status."""

    def __init__(self, status: int, message: str, **headers: str):
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__(message)
