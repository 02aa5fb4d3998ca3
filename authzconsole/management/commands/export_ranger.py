"""Write the grants of the console as policies of Apache Ranger."""

import json
from pathlib import Path

from django.core.management.base import CommandError

from authzconsole.connections.ranger_grants import policies_of
from authzconsole.connections.services import exported_grants
from entities.vocabulary import quantity
from grants.consistent_read import consistent_read
from grants.management.console_command import ConsoleCommand


class Command(ConsoleCommand):
    help = (
        "Write the grants of active principals as policies of a Ranger service of type `cdap`, in the form of exportJson. Grants "
        "that Ranger cannot express are printed on standard error, one JSON object per line."
    )

    def add_arguments(self, parser):
        parser.add_argument("file", metavar="FILE", help="the file to write; - for standard output")
        parser.add_argument("--service", default="cdap", help="the name of the service in Ranger")

    def handle(self, *, file, service, **options):
        with consistent_read():
            policies, notes = policies_of(exported_grants(), service=service)
        text = json.dumps({"policies": policies}, ensure_ascii=False, indent=2)
        if file == "-":
            self.stdout.write(text)
        else:
            try:
                Path(file).write_text(f"{text}\n", encoding="utf-8")
            except OSError as error:
                raise CommandError(f"{file} cannot be written: {error.strerror}") from None
            self.stdout.write(f"{quantity(len(policies), 'policy', 'policies')} written to {file}")
        for note in notes:
            self.write_json(self.stderr, grant=note.policy, reason=note.reason)
