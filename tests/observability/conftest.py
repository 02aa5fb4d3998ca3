# the fixtures of the pages
from tests.web.conftest import browse, cast, htmx

__all__ = ["browse", "cast", "htmx"]
