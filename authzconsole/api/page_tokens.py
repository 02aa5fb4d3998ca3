"""Page tokens of the AuthZEN searches.

A signed token contains its search, its limit and the last id before its page.
"""

from dataclasses import dataclass

from authzconsole.common.problems import Problem
from authzconsole.common.signed_cursor import CursorOfAnotherList, InvalidCursor, read_cursor, sign_cursor
from grants.evaluation.authzen_search import SearchPage

MAX_RESULTS = 1_000
SALT = "authzconsole.api.page"


@dataclass(frozen=True, slots=True)
class RequestedPage:
    """The page that a search request asks for.

    search: the values that must stay the same from page to page. is_requested: whether the request has the
    member `page`.
    limit: the requested limit; None if there is none. after: the last id of the previous page; empty for the
    first page.
    """

    search: object
    is_requested: bool
    limit: int | None
    after: str

    @property
    def max_rows(self) -> int:
        return MAX_RESULTS if self.limit is None else min(self.limit, MAX_RESULTS)

    def response(self, search_page: SearchPage, results: list[dict]) -> dict:
        """Return the response body.

        It has the member `page` if the request has one, or if the results are incomplete.
        """
        if not self.is_requested and not search_page.has_more:
            return {"results": results}
        page = {"next_token": self._next_token(search_page), "count": len(results)}
        if search_page.total is not None:
            page["total"] = search_page.total
        return {"page": page, "results": results}

    def _next_token(self, search_page: SearchPage) -> str:
        # with a limit of 0, the response has only the total, and no page follows
        if not search_page.has_more or not self.max_rows:
            return ""
        last = search_page.ids[-1] if search_page.ids else self.after
        return sign_cursor([self.limit, last], list_identity=self.search, salt=SALT)


def requested_page(body: dict, *, search: object) -> RequestedPage:
    """Return the requested page. Raise Problem if the member `page` is invalid.

    search: the values of the request that must be the same on every page of a search.
    """
    page = body.get("page", {})
    if not isinstance(page, dict):
        raise Problem(400, "`page` must be an object")
    if not isinstance(page.get("properties", {}), dict):
        raise Problem(400, "`page.properties` must be an object")
    limit = _requested_limit(page)
    # the token of the last page is empty; a request with it gets the first page again
    if page.get("token", "") == "":
        return RequestedPage(search, "page" in body, limit, "")
    first_limit, after = _token_position(page["token"], search)
    if limit not in (None, first_limit):
        raise Problem(400, "`page.limit` must be the same as on the first page, or be left out")
    return RequestedPage(search, True, first_limit, after)


def _requested_limit(page: dict) -> int | None:
    limit = page.get("limit")
    if "limit" in page and (type(limit) is not int or limit < 0):
        raise Problem(400, "`page.limit` must be an integer of 0 or more")
    return limit


def _token_position(token: object, search: object) -> list:
    if not isinstance(token, str):
        raise Problem(400, "`page.token` must be a string")
    try:
        return read_cursor(token, list_identity=search, salt=SALT)
    except InvalidCursor:
        raise Problem(
            400,
            "`page.token` was not issued by this console, or was altered: leave it out to start with "
            "the first page",
        ) from None
    except CursorOfAnotherList:
        raise Problem(
            400, "`page.token` belongs to another search: do not change any member except `page`"
        ) from None
