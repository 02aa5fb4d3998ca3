"""The settings of the console with the URL of the reference."""

from authzconsole.settings import *  # noqa: F403

ROOT_URLCONF = "benchmarks.http_server.urls"
