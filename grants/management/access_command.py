"""The base class of the commands that list access as JSON Lines."""

from grants.active_generation import active_generation
from grants.history import at_moment, parse_moment
from grants.management.console_command import ConsoleCommand
from grants.policies.catalogue import generation_by_name
from grants.policies.policy import Generation


class AccessCommand(ConsoleCommand):
    """Write lines for one generation."""

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
        moment = parse_moment(options["as_of"], at)
        with at_moment(moment):
            rules = generation_by_name(generation) if generation is not None else active_generation()
            self.write_lines(generation=rules, revision=moment.revision, **options)

    def write_lines(self, *, generation: Generation, revision: int | None, **options) -> None:
        """Write the lines. revision: the state that the database shows; None for the present."""
        raise NotImplementedError
