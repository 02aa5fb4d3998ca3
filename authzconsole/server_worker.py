"""The application as the workers of the production server load it."""

import os
import signal

from authzconsole.ops.processes import dies_with_parent
from authzconsole.wsgi import application

__all__ = ["application"]

# otherwise a worker outlives a server that was killed, and answers beside those of the next one
dies_with_parent(signal.SIGTERM, os.getppid())()
