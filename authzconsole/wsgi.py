import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "authzconsole.settings")

console = get_wsgi_application()

# Django's applications are there from here on only
from authzconsole.api.token_fast_path import TokenFastPath  # noqa: E402

application = TokenFastPath(console)
