#!/usr/bin/env python
"""Django's command line for the console."""

import os
import sys


def main():
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "authzconsole.settings")
    from authzconsole.ops.processes import keep_files_private

    keep_files_private()
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        # the message is for the operator, who needs no traceback
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
