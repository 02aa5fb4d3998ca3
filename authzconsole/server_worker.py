"""The WSGI application that the workers of the production server load."""

import os
import signal

from authzconsole.ops.processes import die_with_parent
from authzconsole.wsgi import application

__all__ = ["application"]

# without this, the workers of a killed server live on and answer requests next to those of its successor
die_with_parent(signal.SIGTERM, os.getppid())()
