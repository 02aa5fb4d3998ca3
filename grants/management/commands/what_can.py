"""List what a user or group can do: the live entities with the operations that are permitted on them."""

from django.core.management.base import CommandError

from entities.vocabulary import kind_by_name
from grants.access import all_permissions
from grants.management.access_command import AccessCommand
from grants.principal_names import parse_principal, principals_by_name


class Command(AccessCommand):
    help = (
        "List what a principal can do: one JSON object per line for each live entity and each operation that is permitted, "
        "sorted."
    )

    def add_arguments(self, parser):
        parser.add_argument("principal", help="a principal, written user:NAME or group:NAME")
        parser.add_argument("--kind", help="only entities of this kind")
        super().add_arguments(parser)

    def write_lines(self, *, generation, revision, principal, kind, **options):
        subject_type, name = parse_principal(principal)
        kinds = None if kind is None else [kind_by_name(kind).name]
        if principal not in principals_by_name([principal]):
            then = "" if revision is None else f" at revision {revision:,}"
            raise CommandError(f"there is no {principal}{then}")
        for entity, operation in all_permissions(subject_type, name, generation, kinds):
            self.write_json(entity=entity, operation=operation)
