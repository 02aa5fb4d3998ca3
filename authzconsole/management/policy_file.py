"""Read the policy file that a command gets."""

from pathlib import Path

from django.core.management.base import CommandError

from authzconsole.connections.ranger.policies import PolicyFile, PolicyFileError, read_policies
from grants.management.console_command import opened_input


def policies_in(file: str) -> PolicyFile:
    """Return the policies of a file; `-` is standard input. Raise CommandError with the exit code 2 if it cannot be read."""
    try:
        with opened_input(file) as stream:
            return read_policies(stream.read(), file_name="the input" if file == "-" else Path(file).name)
    except PolicyFileError as error:
        raise CommandError(error.detail, returncode=2) from None
    except CommandError as error:
        raise CommandError(str(error), returncode=2) from None
