"""Change a small tenant at random through the services, as people, programs and imports do."""

import random
from datetime import timedelta

from django.utils import timezone

from entities.address import parse_address
from entities.models import Entity, State
from entities.vocabulary import Privilege
from grants.changes.entities import describe_entity
from grants.changes.memberships import remove_all_memberships
from grants.errors import GrantError
from grants.journal import current_revision
from grants.models import Role, User
from grants.policies.catalogue import GENERATIONS
from grants.policies.principals import group_text
from grants.principals.services import set_user_role
from grants.validity import Validity
from tests.support.authors import COMMAND, all_grants
from tests.support.changes import (
    activate_generation,
    add_group,
    add_member,
    add_user,
    change_grants,
    change_members,
    delete_entity,
    recreate_entity,
    register_entity,
    remove_group,
    remove_member,
    remove_user,
    rename_group,
    rename_user,
    set_user_active,
)
from tests.support.tenant_documents import entity, grant, group, import_lines, user

USERS = [f"user {number}" for number in range(5)]
GROUPS = [f"group {number}" for number in range(3)]
ADDRESSES = [
    "namespace:a",
    "namespace:b",
    "dataset:a.one",
    "dataset:a.two",
    "dataset:b.one",
    "application:a.app",
    "program:a.app.workflow.run",
    "stream:b.events",
    "artifact:b.parts",
]
PATTERNS = ["dataset:a.*", "program:*", "dataset:?.one", "namespace:*", "stream:b.nothing*"]


def begin_history(dice: random.Random) -> None:
    """Add most of the users, groups and entities, so that the random changes are not refused too often."""
    for name in USERS[:4]:
        add_user(name)
    for name in GROUPS[:2]:
        add_group(name)
        add_member(dice.choice(USERS[:4]), name)
    for address in ADDRESSES[:4]:
        register_entity(address)


def change_at_random(dice: random.Random) -> None:
    """Make one change with a random service. A change that is refused changes nothing."""
    change = dice.choices(
        [
            _grant,
            _add_principals,
            _set_active,
            _set_members,
            _register,
            _delete,
            _recreate,
            _import,
            _activate_generation,
            _remove_group,
            _change_account,
            _rename,
            _remove_user,
        ],
        [9, 5, 3, 6, 5, 3, 3, 2, 2, 2, 3, 3, 1],
    )[0]
    try:
        change(dice)
    except GrantError:
        pass


def _principal(dice: random.Random) -> str:
    return dice.choice([f"user:{name}" for name in USERS] + [group_text(name) for name in GROUPS])


def _items(dice: random.Random) -> list:
    return [
        (_principal(dice), dice.choice([*ADDRESSES, *PATTERNS]), dice.choice(list(Privilege)))
        for _ in range(dice.randint(0, 4))
    ]


def _validity(item: object) -> Validity:
    """Return a random period that begins an hour before or after now, and that has not ended."""
    dice, now, hour = (
        random.Random(f"{item} {current_revision()}"),
        timezone.now().replace(microsecond=0),
        timedelta(hours=1),
    )
    valid_from = dice.choice([None, None, None, now - hour, now - hour, now + hour])
    return Validity(valid_from, dice.choice([None, now + 2 * hour]))


def _grant(dice):
    stored = sorted(all_grants())
    granted = [(*item, _validity(item)) for item in _items(dice)]
    change_grants(grant=granted, revoke=[*_items(dice), *dice.sample(stored, len(stored) // 5)])


def _add_principals(dice):
    # an account that is not a principal can become one later
    add_user(
        dice.choice(USERS),
        active=dice.random() < 0.8,
        is_principal=dice.random() < 0.6,
        role=dice.choice([Role.ORDINARY, Role.AUDITOR]),
    )
    add_group(dice.choice(GROUPS))


def _set_active(dice):
    set_user_active(dice.choice(USERS), active=dice.random() < 0.5)


def _set_members(dice):
    user, group = dice.choice(USERS), dice.choice(GROUPS)
    match dice.randint(0, 3):
        case 0:
            add_member(user, group, _validity(user))
        case 1:
            remove_member(user, group)
        case 2:
            pks = list(User.objects.order_by("username").values_list("pk", flat=True))
            dice.shuffle(pks)
            change_members(group, added=pks[:2], removed=pks[2:3])
        case 3:
            if member := User.objects.filter(username=user).first():
                remove_all_memberships(author=COMMAND, user=member)


def _register(dice):
    creator = f"user:{dice.choice(USERS)}" if dice.random() < 0.5 else None
    register_entity(
        dice.choice(ADDRESSES),
        creator=creator,
        description="new",
        generation=dice.choice([None, *GENERATIONS]),
    )


def _delete(dice):
    delete_entity(dice.choice(ADDRESSES), generation=dice.choice([None, *GENERATIONS]))


def _recreate(dice):
    deleted = Entity.objects.filter(state=State.DELETED).order_by("kind", "key").first()
    recreate_entity(deleted.address if deleted else "dataset:a.one")


def _activate_generation(dice):
    activate_generation(dice.choice(list(GENERATIONS)))


def _remove_group(dice):
    remove_group(dice.choice(GROUPS), revokes_grants=True)


def _rename(dice):
    # also to a name that another principal had before
    if dice.random() < 0.7:
        rename_user(author=COMMAND, name=dice.choice(USERS), new_name=dice.choice(USERS))
    else:
        rename_group(author=COMMAND, name=dice.choice(GROUPS), new_name=dice.choice(GROUPS))


def _remove_user(dice):
    remove_user(dice.choice(USERS), revokes_grants=True)


def _change_account(dice):
    set_user_role(author=COMMAND, name=dice.choice(USERS), role=dice.choice([Role.ORDINARY, Role.AUDITOR]))
    describe_entity(
        author=COMMAND, address=parse_address(dice.choice(ADDRESSES)), description=str(dice.random())
    )


def _import(dice):
    names, name = dice.sample(USERS, 2), dice.choice(GROUPS)
    import_lines(
        *(user(each, active=dice.random() < 0.7) for each in names),
        *(entity(address, dice.choice(State.values)) for address in dice.sample(ADDRESSES, 2)),
        group(name, *names),
        grant(group_text(name), dice.choice([*ADDRESSES, *PATTERNS]), "READ"),
    )
