"""End the tokens and sessions of accounts. Their tables belong to the layer above, which registers a function."""

from collections.abc import Callable, Sequence

from grants.journal import Change

# (primary keys of users, whether their tokens end too) -> the changes for the journal
AccessEnder = Callable[[Sequence[int], bool], list[Change]]
_enders: list[AccessEnder] = []


def register_access_ender(ender: AccessEnder) -> None:
    if ender not in _enders:
        _enders.append(ender)


def end_access(user_ids: Sequence[int], *, with_tokens: bool = True) -> list[Change]:
    """End the sessions of the users, and their tokens if requested. Return the changes. Call this in their transaction."""
    return [change for ender in _enders for change in ender(user_ids, with_tokens)] if user_ids else []
