"""The settings of the console for tests. They use no state of a console that runs in this checkout.

A process that a test starts (a worker) inherits CONSOLE_TEST_STATE and so the same folder and database file.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

if "CONSOLE_TEST_STATE" not in os.environ:
    os.environ["CONSOLE_TEST_STATE"] = tempfile.mkdtemp(prefix="console-test-")
    atexit.register(shutil.rmtree, os.environ["CONSOLE_TEST_STATE"], ignore_errors=True)
os.environ["STATE_DIR"] = os.environ["CONSOLE_TEST_STATE"]

from authzconsole.settings import *  # noqa: F403 -- only now does STATE_DIR name the right folder
from authzconsole.settings import CACHES, DATABASES, STATE_DIR, STORAGES

if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # a file, as in the product: threads and processes share an in-memory database differently, or not at all
    DATABASES["default"]["TEST"] = {"NAME": str(Path(STATE_DIR) / "test.sqlite3")}

# the files as they lie, without `collectstatic`
STORAGES = {**STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
WHITENOISE_AUTOREFRESH = True
WHITENOISE_USE_FINDERS = True
# a site that was built in this checkout would change the answers of /docs
DOCS_ROOT = Path(STATE_DIR) / "docs"
# the tests must not use a Redis server at the usual port
CACHES = {**CACHES, "shared": CACHES["default"] | {"LOCATION": "shared"}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# a thread of the recorder would write beside the transactions of tests
RECORD_USAGE = False
# only the tests of the first runs switch them on, because they take the worker for half a minute
FIRST_ANALYSES = False
# only the test of the warm-up switches it on, for the same reason
SPARK_STARTS_EARLY = os.environ.get("SPARK_STARTS_EARLY") == "on"
