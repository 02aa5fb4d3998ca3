"""List the active users who can access an entity, with the grants by which they can."""

import json
from collections.abc import Iterator
from itertools import islice

from django.core.management.base import CommandError

from entities.address import parse_address
from entities.selectors import entity_at
from grants.access import Path, Ways, all_access, check_operation
from grants.management.access_command import AccessCommand
from grants.policies.explain import NOT_REGISTERED

PATHS_PER_WRITE = 1_000


class Command(AccessCommand):
    help = (
        "List who can access an entity: one JSON object per line for each active user and each operation that is permitted, "
        "with the grants by which it is permitted, sorted."
    )

    def add_arguments(self, parser):
        parser.add_argument("entity", help="an address, such as dataset:sales.orders")
        parser.add_argument(
            "--operation", help="only this operation, or this privilege on exactly the entity"
        )
        super().add_arguments(parser)

    def write_lines(self, *, generation, revision, entity, operation, **options):
        address = parse_address(entity)
        operations = None if operation is None else [check_operation(address.kind, operation)]
        if entity_at(address) is None:
            if revision is not None:
                raise CommandError(f"{address} did not exist at revision {revision:,}")
            self.stderr.write(f"{address} is {NOT_REGISTERED}: check the address")
        for access in all_access(address, generation, operations):
            for name, ways in access.ways.items():
                for part in _line(access.user, name, ways):
                    self.stdout.write(part, ending="")


def _line(user: str, operation: str, ways: Ways) -> Iterator[str]:
    """Yield the parts of one line. A line can have very many paths, so it is not built as a whole."""
    head = json.dumps({"user": user, "operation": operation}, ensure_ascii=False)
    yield f'{head[:-1]}, "paths": ['
    paths, separator = iter(ways), ""
    while batch := list(islice(paths, PATHS_PER_WRITE)):
        yield separator + ", ".join(json.dumps(path_as_json(path), ensure_ascii=False) for path in batch)
        separator = ", "
    yield "]}\n"


def path_as_json(path: Path) -> dict[str, str]:
    return {"principal": path.principal, "entity": path.entity, "privilege": path.privilege}
