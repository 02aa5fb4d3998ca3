"""The console: settings, pages, REST, AuthZEN, commands, and the programs that set it up and run it.

Rules and changes of grants are in `grants`, and analyses in `analytics`.
"""

from authzconsole.celery import app as celery_app

# of pyproject.toml, which an installation does not contain
VERSION = "1.1.0"

__all__ = ["VERSION", "celery_app"]
