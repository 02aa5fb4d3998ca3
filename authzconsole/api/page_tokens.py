"""Pages of a search. A token is signed and carries the search that it belongs to, its limit and the last id before it."""

import hashlib
import json
from dataclasses import dataclass

from django.core import signing

from authzconsole.common.refusal import Refused
from grants.evaluation.authzen_search import SearchPage

MOST_RESULTS = 1_000
SALT = "authzconsole.api.page"


@dataclass(frozen=True, slots=True)
class PageAsked:
    """search: which search it is a page of. limit: as it was asked for; None: as many as are given at once."""

    search: str
    is_asked: bool
    limit: int | None
    after: str

    @property
    def most_rows(self) -> int:
        return MOST_RESULTS if self.limit is None else min(self.limit, MOST_RESULTS)

    def answered(self, found: SearchPage, results: list[dict]) -> dict:
        """`page` stands there when it was asked for, or when the answer is not complete."""
        if not self.is_asked and not found.has_more:
            return {"results": results}
        page = {"next_token": self._next(found), "count": len(results)}
        if found.total is not None:
            page["total"] = found.total
        return {"page": page, "results": results}

    def _next(self, found: SearchPage) -> str:
        # who asks for none asks how many there are: no page follows that one
        if not found.has_more or not self.most_rows:
            return ""
        last = found.ids[-1] if found.ids else self.after
        return signing.dumps([self.search, self.limit, last], salt=SALT)


def page_asked(body: dict, *, search: object) -> PageAsked:
    """search: all that must stay the same from page to page. Raises Refused."""
    digest = hashlib.sha256(json.dumps(search, sort_keys=True).encode()).hexdigest()
    page = body.get("page", {})
    if not isinstance(page, dict):
        raise Refused(400, "`page` must be an object")
    limit = _limit(page)
    # the empty one is what the last page says; it comes before the first page as `cursor` does in REST
    if page.get("token", "") == "":
        return PageAsked(digest, "page" in body, limit, "")
    of_search, first_limit, after = _opened(page["token"])
    if of_search != digest:
        raise Refused(400, "`page.token` belongs to another search: every member but `page` must stay as it was")
    if limit not in (None, first_limit):
        raise Refused(400, "`page.limit` must stay as it was on the first page, or be left out")
    return PageAsked(digest, True, first_limit, after)


def _limit(page: dict) -> int | None:
    limit = page.get("limit")
    if "limit" in page and (type(limit) is not int or limit < 0):
        raise Refused(400, "`page.limit` must be an integer of 0 or more")
    return limit


def _opened(token: object) -> list:
    if not isinstance(token, str):
        raise Refused(400, "`page.token` must be a string")
    try:
        # what is not ASCII was not made here
        return signing.loads(token.encode("ascii").decode(), salt=SALT)
    except (signing.BadSignature, UnicodeEncodeError):
        raise Refused(400, "`page.token` is none that this console gave, or was altered: leave it out to begin with the "
                           "first page") from None
