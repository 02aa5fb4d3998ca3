"""The console's settings, with the reference's address beside its own."""

from authzconsole.settings import *  # noqa: F403

ROOT_URLCONF = "benchmarks.served.urls"
