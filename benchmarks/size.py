"""The size of a benchmark tenant."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """The number of objects of each type. `entities` includes the namespaces and applications."""

    entities: int
    namespaces: int
    users: int
    groups: int
    grants: int

    @property
    def applications(self) -> int:
        return self.entities // 20
