"""The application that the workers of the production server load."""

import os
import signal

from django.conf import settings
from django.urls import get_resolver

from authzconsole.common.monitoring.shared_folder import prepare_metrics
from authzconsole.ops.processes import die_with_parent, keep_files_private
from authzconsole.server.process import exit_with_parent, prepare_process

# before the console, which imports the metrics
prepare_metrics(settings.STATE_DIR, os.getppid())

from authzconsole.wsgi import application as console  # noqa: E402, isort: skip

# after the console, which loads the applications of Django
from authzconsole.server.application import ConsoleServer  # noqa: E402, isort: skip
from authzconsole.server.environ import TrustedProxies  # noqa: E402, isort: skip
from authzconsole.server.limits import BodyLimits  # noqa: E402, isort: skip

__all__ = ["application"]

keep_files_private()
# without this, the workers of a killed server would continue to answer requests, next to those of the next
# server
die_with_parent(signal.SIGTERM, os.getppid())()
exit_with_parent(os.getppid())

# load the views now instead of during the first request
len(get_resolver().url_patterns)

application = ConsoleServer(
    console,
    limits=BodyLimits(**settings.BODY_LIMITS),
    proxies=TrustedProxies(settings.TRUSTED_PROXIES),
    folder=prepare_process(settings.STATE_DIR),
)
