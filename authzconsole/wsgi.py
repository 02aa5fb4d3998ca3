"""The WSGI application of the console, with the fast path for AuthZEN calls in front."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "authzconsole.settings")

console = get_wsgi_application()

# after `get_wsgi_application`, which loads the applications of Django
from authzconsole.api.token_fast_path import TokenFastPath  # noqa: E402

application = TokenFastPath(console)
