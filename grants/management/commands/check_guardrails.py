"""Check whether the guardrails hold: now, after a plan, or with a tenant document that is not imported yet."""

import sys
from contextlib import ExitStack
from pathlib import Path

from django.core.management.base import CommandError

from entities.errors import Refusal
from grants.consistent_read import consistent_read
from grants.guardrails.evaluation import EVERYTHING, Part, violations
from grants.guardrails.exceptions import Exceptions
from grants.guardrails.report import Report
from grants.guardrails.rules import rule_of, with_rules
from grants.guardrails.storage import reasons_for_no_match
from grants.management.console_command import ConsoleCommand, opened_input
from grants.models import Guardrail
from grants.plans.apply import rehearsed_plan
from grants.tenant import rehearsed_import

FORMATS = ("text", "json", "sarif")


class Command(ConsoleCommand):
    help = (
        "Check the guardrails. With FILE, a tenant document is imported, checked and rolled back; a document of "
        "guardrails only is checked against the console. Exit code 0: all hold, 1: violations, 2: bad input."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "file", nargs="?", metavar="FILE", help="a tenant document, or - for standard input"
        )
        parser.add_argument("--plan", type=int, metavar="N", help="check the state after this plan")
        parser.add_argument("--format", choices=FORMATS, default="text")

    def handle(self, *, file, plan, format, **options):
        try:
            report = self._check(file, plan, format)
        except Refusal as error:
            raise CommandError(error.detail, returncode=2) from None
        except CommandError as error:
            raise CommandError(str(error), returncode=2) from None
        if report.open_count:
            self.stdout.flush()
            sys.exit(1)

    def _check(self, file: str | None, plan: int | None, format: str) -> Report:
        with ExitStack() as context:
            lines: dict[str, int] | None = None
            rows = with_rules(Guardrail.objects.all())
            if file is None and plan is None:
                context.enter_context(consistent_read())
            if file is not None:
                document = context.enter_context(rehearsed_import(context.enter_context(opened_input(file))))
                lines = {name: line.line for name, line in document.guardrails.items()}
                if len(lines) == document.lines:
                    rows = rows.filter(name__among=list(lines)) if lines else rows.none()
            if plan is not None:
                context.enter_context(rehearsed_plan(plan))
            guardrails = {row.name: row for row in rows}
            is_all = lines is None or len(guardrails) == Guardrail.objects.count()
            part = EVERYTHING if is_all else Part(guardrails=[row.pk for row in guardrails.values()])
            exceptions = Exceptions()
            rules = {name: rule_of(row) for name, row in sorted(guardrails.items())}
            report = Report(
                rules,
                ((row, exceptions.accepting(row)) for row in violations(part)),
                no_match=reasons_for_no_match(rules),
                file=Path(file).name if file and file != "-" else "",
                lines=lines,
            )
            for piece in getattr(report, format)():
                self.stdout.write(piece, ending="")
        return report
