"""Make the grants that the policies of an Apache Ranger service give."""

from collections import defaultdict
from pathlib import Path

from django.db import transaction

from authzconsole.connections.ranger_grants import computed_import
from authzconsole.connections.ranger_remarks import remarks_of
from authzconsole.connections.services import import_source
from authzconsole.management.policy_file import policies_in
from entities.vocabulary import clip, quantity
from grants.changes import apply
from grants.evaluation.remarks import replace_remarks
from grants.journal import Author
from grants.management.console_command import ConsoleCommand
from grants.management.second_person import add_second_person_argument, reason_with_second_person


class Command(ConsoleCommand):
    help = (
        "Make the grants that the policies of a Ranger service of type `cdap` give, as one change set. Policies that cannot be "
        "taken over wholly are printed, one JSON object per line. Exit code 2: bad input."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "file",
            metavar="FILE",
            help="the JSON export of a service of type `cdap`, or a policy download; - for standard input",
        )
        parser.add_argument("--dry-run", action="store_true", help="report the changes without making them")
        add_second_person_argument(parser)

    def handle(self, *, file, dry_run, second_person, **options):
        name = "the input" if file == "-" else clip(Path(file).name)
        policies = policies_in(file)
        change_set, notes = computed_import(policies)
        reason = f"import of {name} from Ranger"
        author = Author(
            "import_ranger", reason=reason if dry_run else reason_with_second_person(reason, second_person)
        )
        with transaction.atomic():
            outcome = apply(change_set, author=author, is_rehearsal=dry_run)
            if not dry_run:
                replace_remarks(remarks_of(policies), import_source(policies.service))
        reasons = defaultdict(list)
        for note in notes:
            reasons[note.policy, note.id].append(note.reason)
        for (policy, id_), texts in reasons.items():
            self.write_json(policy=policy, id=id_, reason="; ".join(texts))
        grants = quantity(len(outcome.changes), "change", "changes")
        self.stderr.write(f"{grants} {'would be made' if dry_run else 'made'}")
