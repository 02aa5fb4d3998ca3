"""Let PostgreSQL plan the statements of pages for their parameters, and those of APIs only once."""

from authzconsole.common.database import set_prepare_threshold
from authzconsole.web.people.impersonation import NON_PAGE_PREFIXES


class PageQueryPlanMiddleware:
    """Set the prepare threshold of the database connection for pages and APIs.

    Without an open connection, no account was loaded, so the request reads no large tables.
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        set_prepare_threshold(is_page=not request.path.startswith(NON_PAGE_PREFIXES))
        return self.get_response(request)
