"""The console: settings, pages, REST, AuthZEN, commands, and what sets up and runs it.

Rules and changes of grants are in `grants`, analyses in `analytics`.
"""

from authzconsole.celery import app as celery_app

__all__ = ["celery_app"]
