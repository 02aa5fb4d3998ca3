"""A page's statements are planned for what it asks about, a service's once for all that it will ask.

One plan for every namespace and every account is a bad one for the largest; one for every decision saves most of its time.
"""

from django.db import connection

from authzconsole.web.people.impersonation import NOT_PAGES


class PageQueryPlanMiddleware:
    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        # without a connection there was no account, and there are no large pages
        if connection.vendor == "postgresql" and connection.connection is not None:
            of_services = connection.settings_dict["OPTIONS"].get("prepare_threshold")
            connection.connection.prepare_threshold = of_services if request.path.startswith(NOT_PAGES) else None
        return self.get_response(request)
