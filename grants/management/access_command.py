"""The base class of the commands that list access as JSON Lines."""

import os
import sys
from contextlib import nullcontext

from django.core.management.base import CommandError

from grants.active_generation import active_generation
from grants.history import HistoryError, as_of, parse_as_of, parse_at
from grants.management.console_command import ConsoleCommand
from grants.policies.catalogue import UnknownGeneration, generation_by_name
from grants.policies.policy import Generation


class AccessCommand(ConsoleCommand):
    """Write lines for one generation. A reader may close the pipe before the end."""

    def add_arguments(self, parser):
        parser.add_argument("--generation", help="decide with the rules of this generation; by default the active one")
        parser.add_argument("--as-of", help="answer with the state after this revision, or at this time, such as 812 or "
                                            "2026-05-01T12:00:00Z")
        parser.add_argument("--at", help="the time that the question is about, such as 2026-12-01T00:00:00Z; now by default")

    def handle(self, *, generation, at, **options):
        try:
            if at is not None:
                parse_at(at)
            revision = None if options["as_of"] is None else parse_as_of(options["as_of"])
            with nullcontext() if revision is None else as_of(revision):
                self.write_lines(generation=_generation(generation), revision=revision, **options)
            self.stdout.flush()
        except HistoryError as error:
            raise CommandError(str(error)) from None
        except BrokenPipeError:
            # discard the buffered output so that Python reports no error at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def write_lines(self, *, generation: Generation, revision: int | None, **options) -> None:
        """Write the lines. revision: the state that the database shows; None for the present."""
        raise NotImplementedError


def _generation(name: str | None) -> Generation:
    try:
        return active_generation() if name is None else generation_by_name(name)
    except UnknownGeneration as error:
        raise CommandError(str(error)) from None
