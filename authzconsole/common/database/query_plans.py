"""Choose whether PostgreSQL plans a statement once or for every set of parameters.

psycopg prepares a statement after `prepare_threshold` executions; PostgreSQL then may use one generic plan
for all parameters. For APIs this saves most of the time of a decision. For pages it is harmful: a plan that
suits an average namespace or account is a bad plan for the largest one. So pages set the threshold to None
(never prepare, plan for the actual parameters), and all other requests use the threshold from the settings
(`DATABASES["default"]["OPTIONS"]["prepare_threshold"]`).

A connection serves many requests, so each request sets the threshold.
"""

from django.db import DEFAULT_DB_ALIAS, connections


def set_prepare_threshold(*, is_page: bool) -> None:
    """Set the threshold of the open PostgreSQL connection. A new connection has that of the settings."""
    database = connections[DEFAULT_DB_ALIAS]
    if database.vendor == "postgresql" and database.connection is not None:
        database.connection.prepare_threshold = (
            None if is_page else database.settings_dict["OPTIONS"].get("prepare_threshold")
        )
