"""Write and read principals as text: `user:NAME`, `group:NAME` or `role:NAME`.

A role is stored as a group whose name begins with `role:`, so code for groups works for roles too.
Only this module knows the two written forms of groups.
"""

ROLE_PREFIX = "role:"


def principal_text(principal_type: str, name: str) -> str:
    """Return the written form of a principal. principal_type: `user` or `group`. name: as it is stored."""
    if principal_type == "group" and name.startswith(ROLE_PREFIX):
        return name
    return f"{principal_type}:{name}"


def group_text(name: str) -> str:
    """Return the written form of a group or role. name: as it is stored."""
    return principal_text("group", name)


def type_and_name(text: str) -> tuple[str, str]:
    """Return the type and the stored name of a principal in written form; the type is empty without a colon."""
    if text.startswith(ROLE_PREFIX):
        return "group", text
    principal_type, colon, name = text.partition(":")
    return (principal_type, name) if colon else ("", text)


def written_subject(principal_type: str, name: str) -> tuple[str, str]:
    """Return the type and the id of a subject of AuthZEN: `role` and a name without prefix for a role."""
    written_type, _, subject_id = principal_text(principal_type, name).partition(":")
    return written_type, subject_id


def stored_subject(subject_type: str, subject_id: str) -> tuple[str, str]:
    """Return the type and the stored name of a subject of AuthZEN; the inverse of `written_subject`."""
    return ("group", ROLE_PREFIX + subject_id) if subject_type == "role" else (subject_type, subject_id)


def is_group_text(text: str) -> bool:
    """Return whether the text is the written form of a group or role."""
    return text.startswith(("group:", ROLE_PREFIX))


def is_principal_text(text: str) -> bool:
    """Return whether the text begins like a principal in written form."""
    return text.startswith("user:") or is_group_text(text)


def principal_sql(principal_type: str, name: str) -> str:
    """Return the SQL of `principal_text`. name: an expression for the stored name."""
    written = f"'{principal_type}:' || {name}"
    if principal_type != "group":
        return written
    return f"CASE WHEN substr({name}, 1, {len(ROLE_PREFIX)}) = '{ROLE_PREFIX}' THEN {name} ELSE {written} END"
