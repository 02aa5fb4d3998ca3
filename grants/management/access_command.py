"""The base class of the commands that list access as JSON Lines."""

import os
import sys

from django.core.management.base import CommandError

from grants.active_generation import active_generation
from grants.history import HistoryError, at_moment, parse_moment
from grants.management.console_command import ConsoleCommand
from grants.policies.catalogue import UnknownGeneration, generation_by_name
from grants.policies.policy import Generation


class AccessCommand(ConsoleCommand):
    """Write lines for one generation. A reader may close the pipe before the end."""

    def add_arguments(self, parser):
        parser.add_argument(
            "--generation", help="decide with the rules of this generation; by default the active one"
        )
        parser.add_argument(
            "--as-of",
            help="answer with the state after this revision, or at this time, such as 812 or "
            "2026-05-01T12:00:00Z",
        )
        parser.add_argument(
            "--at",
            help="count the grants and memberships that are valid at this time, such as "
            "2026-12-01T00:00:00Z; by default now, or the time of --as-of",
        )

    def handle(self, *, generation, at, **options):
        try:
            moment = parse_moment(options["as_of"], at)
            with at_moment(moment):
                self.write_lines(generation=_generation(generation), revision=moment.revision, **options)
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
