"""The WSGI application that the workers of the production server load."""

import os
import signal

from authzconsole.ops.processes import die_with_parent
from authzconsole.wsgi import application

__all__ = ["application"]

# without this, the workers of a killed server would continue to answer requests, next to those of the next server
die_with_parent(signal.SIGTERM, os.getppid())()
