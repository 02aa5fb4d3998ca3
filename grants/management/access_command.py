"""The base class of the commands that list access as JSON Lines."""

import os
import sys
from datetime import datetime

from django.core.management.base import CommandError
from django.utils.dateparse import parse_datetime

from grants.active_generation import active_generation
from grants.management.console_command import ConsoleCommand
from grants.policies.catalogue import UnknownGeneration, generation_by_name
from grants.policies.policy import Generation


class AccessCommand(ConsoleCommand):
    """Write lines for one generation. A reader may close the pipe before the end."""

    def add_arguments(self, parser):
        parser.add_argument("--generation", help="decide with the rules of this generation; by default the active one")
        parser.add_argument("--at", help="the time that the question is about, such as 2026-12-01T00:00:00Z; now by default")

    def handle(self, *, generation, at, **options):
        _check_time(at)
        try:
            self.write_lines(generation=_generation(generation), **options)
            self.stdout.flush()
        except BrokenPipeError:
            # discard the buffered output so that Python reports no error at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def write_lines(self, *, generation: Generation, **options) -> None:
        raise NotImplementedError


def _generation(name: str | None) -> Generation:
    try:
        return active_generation() if name is None else generation_by_name(name)
    except UnknownGeneration as error:
        raise CommandError(str(error)) from None


def _check_time(text: str | None) -> datetime | None:
    """Return the time. Raise CommandError if it is no time with a zone. No grant depends on the time yet."""
    if text is None:
        return None
    try:
        time = parse_datetime(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise CommandError(f"--at: `{text}` is not a time with a zone, such as 2026-12-01T00:00:00Z")
    return time
