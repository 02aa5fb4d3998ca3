"""Convert a requirement to JSON for REST."""

from collections.abc import Callable, Iterable

from entities.vocabulary import Privilege
from grants.policies.grammar import Algebra, Parameter, Scope


class RequirementJson(Algebra[dict]):
    """The tree of a requirement as JSON."""

    def has(self, privileges: tuple[Privilege, ...], scope: Scope) -> dict:
        return {"node": "has", "privileges": list(map(str, privileges)), "scope": scope.value}

    def has_at_or_below(self) -> dict:
        return {"node": "has-at-or-below"}

    def has_on_all_live(self, privilege: Privilege, kind: str | None) -> dict:
        return {"node": "has-on-all-live", "privileges": [str(privilege)], "kind": kind}

    def always(self) -> dict:
        return {"node": "always"}

    def all_of(self, parts: Iterable[dict]) -> dict:
        return {"node": "all-of", "parts": list(parts)}

    def any_of(self, parts: Iterable[dict]) -> dict:
        return {"node": "any-of", "parts": list(parts)}

    def given(self, parameter: Parameter, then: Callable[[], dict]) -> dict:
        return {"node": "given", "parameter": parameter.value, "parts": [then()]}
