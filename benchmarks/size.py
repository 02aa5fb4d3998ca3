"""How large a tenant is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """How many of each; entities with the namespaces and applications among them."""

    entities: int
    namespaces: int
    users: int
    groups: int
    grants: int

    @property
    def applications(self) -> int:
        return self.entities // 20
