import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "authzconsole.settings")

console = get_wsgi_application()

# Django's applications are there from here on only
from authzconsole.api.lane import TokenLane  # noqa: E402

application = TokenLane(console)
