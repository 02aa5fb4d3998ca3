"""Choose, for each request, whether PostgreSQL plans a statement once or for every set of parameters.

psycopg prepares a statement after `prepare_threshold` executions; PostgreSQL then may use one generic plan for all parameters.
For APIs this saves most of the time of a decision. For pages it is harmful: a plan that suits an average namespace or account is
a bad plan for the largest one. So pages set the threshold to None (never prepare, plan for the actual parameters), and all other
requests use the threshold from the settings (`DATABASES["default"]["OPTIONS"]["prepare_threshold"]`).

The connection outlives the request, so the middleware sets the threshold on every request.
"""

from django.db import connection

from authzconsole.web.people.impersonation import NON_PAGE_PREFIXES


class PageQueryPlanMiddleware:
    """Set the prepare threshold of the PostgreSQL connection for pages and APIs. Do nothing on other databases."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        # Without an open connection, no account was loaded, so the request reads no large tables.
        if connection.vendor == "postgresql" and connection.connection is not None:
            api_threshold = connection.settings_dict["OPTIONS"].get("prepare_threshold")
            connection.connection.prepare_threshold = api_threshold if request.path.startswith(NON_PAGE_PREFIXES) else None
        return self.get_response(request)
