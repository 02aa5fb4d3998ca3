"""Convert a requirement to JSON for REST."""

from grants.policies.grammar import (
    AllOf,
    Always,
    AnyOf,
    Expression,
    Given,
    Has,
    HasAtOrBelow,
    HasOnAllLive,
    UnknownExpression,
)


def requirement_as_json(expression: Expression) -> dict:
    match expression:
        case Has(privileges, scope):
            return {"node": "has", "privileges": list(map(str, privileges)), "scope": scope.value}
        case HasAtOrBelow():
            return {"node": "has-at-or-below"}
        case HasOnAllLive(privilege, kind):
            return {"node": "has-on-all-live", "privileges": [str(privilege)], "kind": kind}
        case Always():
            return {"node": "always"}
        case AllOf(parts):
            return {"node": "all-of", "parts": list(map(requirement_as_json, parts))}
        case AnyOf(parts):
            return {"node": "any-of", "parts": list(map(requirement_as_json, parts))}
        case Given(parameter, then):
            return {"node": "given", "parameter": parameter.value, "parts": [requirement_as_json(then)]}
        case _:
            raise UnknownExpression(expression)
