"""Write policy files of Ranger for tests."""

import json

from authzconsole.connections.ranger.policies import KIND_OF_LEVEL, PolicyFile, read_policies

# what a policy on a container has at the levels below it
NOTHING_BELOW = {"values": ["*"], "isExcludes": True}


def policy(
    user: str | None = None, accesses: str = "read", *, name: str = "", number: int | None = None, **parts
) -> dict:
    """Return a policy that gives privileges to one user.

    parts: the names at each level, separated by spaces, or the object of the level; other members of the policy.
    """
    levels = {"instance": "cdap", **{level: parts.pop(level) for level in KIND_OF_LEVEL if level in parts}}
    return {
        "name": name or f"policy of {user}",
        "isEnabled": True,
        "resources": {
            level: names if isinstance(names, dict) else {"values": names.split()}
            for level, names in levels.items()
        },
        "policyItems": [item(user, accesses=accesses)] if user else [],
        **({} if number is None else {"id": number}),
        **parts,
    }


def item(*users: str, accesses: str = "read", groups=(), roles=(), **members) -> dict:
    """Return an item of a policy. accesses: access types, separated by spaces."""
    return {
        "accesses": [{"type": access, "isAllowed": True} for access in accesses.split()],
        "users": list(users),
        "groups": list(groups),
        "roles": list(roles),
        **members,
    }


def document(*policies: dict, **members) -> bytes:
    return json.dumps({"policies": list(policies), **members}).encode()


def policy_file(*policies: dict, **members) -> PolicyFile:
    return read_policies(document(*policies, **members), file_name="policies.json")
