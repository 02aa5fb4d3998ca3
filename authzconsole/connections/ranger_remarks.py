"""Write as remarks what policies of Ranger have and grants cannot express, so that explanations name the policies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from authzconsole.connections.ranger.policies import (
    CURRENT_USER,
    PUBLIC_GROUP,
    Item,
    LeftOut,
    Level,
    Policy,
    PolicyFile,
)
from authzconsole.connections.ranger_grants import (
    ANY_NAME,
    addresses_of_policy,
    crossing_addresses,
    fault_of_policy,
    principals_of_item,
)
from entities.address import Address, instance_address
from entities.frozen import frozen
from entities.vocabulary import Privilege, clip, join_words
from grants.evaluation.remarks import namespace_of
from grants.models import Remark, RemarkPart

_DIFFERS = "so the platform may answer differently"
_EVERYBODY = Item(frozenset(), frozenset({PUBLIC_GROUP}), frozenset(), frozenset(Privilege))
_MASKED: Mapping[str, str] = {LeftOut.MASKS: "gives only masked", LeftOut.FILTERS: "gives only filtered"}


# where the policies on tags are in force
_ANYWHERE = Address("", "")


@frozen
class _Part:
    """What a policy does to answers. verb: in `VERB PRIVILEGES on ADDRESS to PRINCIPAL`. reason: why the console does not.
    is_restricted: it does so only to those who are in `others` too; otherwise, to those who are not. addresses: where; by
    default, what the policy is about.
    """

    verb: str
    reason: str
    items: Sequence[Item]
    others: Sequence[Item] = ()
    is_restricted: bool = False
    gives: bool = False
    addresses: Sequence[Address] | None = None


def remarks_of(file: PolicyFile) -> list[Remark]:
    """Return what the policies of a file may change in answers. The remarks have no source yet."""
    parts = (
        (policy, part)
        for policy in (*file.policies, *file.left_out)
        if not policy.levels or policy.levels[0].has_name(instance_address().name)
        for part in _parts(policy, has_deny=file.enables_deny is not False)
    )
    return [row for number, (policy, part) in enumerate(parts, 1) for row in _rows(number, policy, part)]


def remarks_of_tag_service(service: str, tag_service: str) -> list[Remark]:
    """Return that the policies of a tag service may change every answer."""
    text = (
        f"The console does not read the policies of `{clip(tag_service)}`, the tag service of the Ranger service "
        f"`{clip(service)}`, {_DIFFERS}."
    )
    # the numbers of policies begin with 1
    return [_row(0, RemarkPart.ITEM, "", list(Privilege), _ANYWHERE, gives, text) for gives in (False, True)]


def _parts(policy: Policy, *, has_deny: bool) -> Iterator[_Part]:
    def no_evaluation(what: str) -> str:
        return f"the console does not evaluate {what}"

    if policy.left_out in _MASKED:
        yield _Part(_MASKED[policy.left_out], no_evaluation(policy.left_out), policy.allow)
        return
    deny, exceptions = (policy.deny, policy.allow_exceptions) if has_deny else ((), ())
    yield _Part("denies", no_evaluation("deny items"), deny, _unconditional(policy.deny_exceptions))
    if policy.denies_all_else:
        yield _Part("denies", no_evaluation("the denial of all other access"), [_EVERYBODY], policy.allow)
    if policy.left_out == LeftOut.ZONES:
        yield _Part("does not always give", no_evaluation("security zones"), [_EVERYBODY], policy.allow)
    fault = "" if policy.left_out else fault_of_policy(policy)
    if policy.left_out or fault:
        reason = (
            no_evaluation(policy.left_out)
            if policy.left_out
            else f"the console leaves it out because {fault}"
        )
        yield _Part("gives", reason, policy.allow, _unconditional(exceptions), gives=True)
        return
    if exceptions:
        yield _Part(
            "does not always give", no_evaluation("exceptions"), policy.allow, exceptions, is_restricted=True
        )
    conditional = [item for item in policy.allow if policy.is_conditional or item.is_conditional]
    yield _Part("does not always give", no_evaluation("conditions"), conditional)
    crossing = [part for address in addresses_of_policy(policy, []) for part in crossing_addresses(address)]
    by_level = "Ranger compares names with dots level by level"
    yield _Part("does not always give", by_level, policy.allow, addresses=crossing)
    open_items = [replace(_EVERYBODY, accesses=item.accesses) for item in policy.allow if _is_open(item)]
    yield _Part(
        "gives", no_evaluation("items for everybody"), open_items, _unconditional(exceptions), gives=True
    )


def _unconditional(items: Iterable[Item]) -> list[Item]:
    """Return the exceptions without conditions: with some, it may be none."""
    return [item for item in items if not item.is_conditional]


def _rows(number: int, policy: Policy, part: _Part) -> Iterator[Remark]:
    """Yield a row for each address and principal."""
    item_part = RemarkPart.RESTRICTED_ITEM if part.is_restricted else RemarkPart.ITEM
    other_part = RemarkPart.RESTRICTION if part.is_restricted else RemarkPart.EXCEPTION
    if not part.items:
        return
    rows = [
        (row_part, principal, [str(privilege) for privilege in Privilege if privilege in item.accesses])
        for row_part, items in ((item_part, part.items), (other_part, part.others))
        for item in items
        if item.accesses
        for principal in _principals(item)
    ]
    included, excluded = _addresses(policy) if part.addresses is None else (part.addresses, [])
    for address in included:
        for row_part, principal, privileges in rows:
            text = (
                f"Ranger policy `{clip(policy.name)}` {part.verb} {join_words(privileges)} on "
                f"{'what has its tags' if address == _ANYWHERE else address} to {principal or 'everybody'}; {part.reason}, {_DIFFERS}."
            )
            yield _row(number, row_part, principal, privileges, address, part.gives, text)
    for address in excluded:
        yield _row(number, RemarkPart.EXCEPTION, "", list(Privilege), address, part.gives)


def _row(
    number: int,
    part: RemarkPart,
    principal: str,
    privileges: Sequence[str],
    address: Address,
    gives: bool,
    text: str = "",
) -> Remark:
    is_item = part in (RemarkPart.ITEM, RemarkPart.RESTRICTED_ITEM)
    return Remark(
        number=number,
        part=part,
        namespace=namespace_of(address),
        kind=address.kind,
        key=address.key,
        principal=principal,
        privileges=" ".join(privileges),
        gives=gives,
        text=text if is_item else "",
    )


def _principals(item: Item) -> Iterable[str]:
    """Return the principals of an item in written form; an empty one for everybody."""
    return [""] if _is_open(item) else principals_of_item(item, [])


def _is_open(item: Item) -> bool:
    return PUBLIC_GROUP in item.groups or CURRENT_USER in item.users


def _addresses(policy: Policy) -> tuple[list[Address], list[Address]]:
    """Return the addresses and patterns that a policy is about, and those of them that it is not about."""
    if not policy.levels:
        return [_ANYWHERE], []
    names = [_with_any_name(level) for level in policy.levels]
    excluded = [
        address
        for number, level in enumerate(policy.levels)
        if level.is_excluded and not level.is_any
        for address in _addresses_of_levels(
            policy, [*names[:number], replace(level, is_excluded=False), *names[number + 1 :]]
        )
    ]
    return _addresses_of_levels(policy, names), excluded


def _with_any_name(level: Level) -> Level:
    """Return the level; with any name, if some are excluded."""
    return Level(level.kind, (ANY_NAME,)) if level.is_excluded and not level.is_any else level


def _addresses_of_levels(policy: Policy, levels: Iterable[Level]) -> list[Address]:
    return list(addresses_of_policy(replace(policy, levels=tuple(levels)), []))
