"""The error of backups."""


class BackupError(Exception):
    """A backup cannot be written or restored.

    The message names the problem and, where there is one, the remedy.
    """
