"""Serialize the values of the shared cache in Redis."""


class IntegerSerializer:
    """Store integers only, as decimal digits.

    Django's own serializer unpickles what it reads, so anyone who can write to Redis could execute code in
    this process.
    """

    def dumps(self, value: int) -> int:
        """Return the value for Redis. Raise ValueError for anything but an integer."""
        if type(value) is not int:
            raise ValueError("the shared cache stores integers only")
        return value

    def loads(self, data: bytes) -> int:
        """Return the stored integer. Raise ValueError if something else was written to Redis."""
        return int(data)
