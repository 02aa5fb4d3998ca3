"""List who can access an entity, what a principal can do, and the paths: the grants by which each operation
is permitted.

This package collects the paths, loads the grants that they consist of, and lists people and entities. It only
reads, and evaluates the rules in `grants.policies`.
"""

from grants.access.access_lists import AccessList, Position, Target
from grants.access.paths import Path, Ways
from grants.access.requirements import UnknownOperation, check_operation, operations_by_requirement
from grants.access.what_can import (
    MAX_COUNTED,
    AccessibleEntities,
    EntityAccess,
    EntityFilter,
    all_permissions,
    kinds_in_byte_order,
)
from grants.access.who_can import (
    PATH_KINDS,
    PeopleFilter,
    PeopleWithAccess,
    access_of_users,
    all_access,
)
