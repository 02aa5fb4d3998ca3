"""The settings of the console. They come from environment variables. The defaults work on a single machine.

Each module has the settings of one subject. This package contains no code that needs Django's apps.
"""

from .accounts import *
from .analyses import *
from .authorization import *
from .database import *
from .environment import BASE_DIR as BASE_DIR
from .environment import STATE_DIR as STATE_DIR
from .environment import TEMP_DIR as TEMP_DIR
from .limits import *
from .observability import *
from .production import *
from .rest import *
from .second_factor import *
from .servers import *
from .sign_in import *
from .site import *
from .transport import *
from .user_directory import *
