"""Every page of the console with an example URL, by the name of its screenshot.

`pages.toml` lists them. INVARIANT: each named URL is in PAGES, in SIGNED_OUT, or, with the reason, in NO_PAGE
(tests/web/test_page_lists.py). Screenshots, browser tests and benchmarks use these lists.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from analytics.analyses import ANALYSES

_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PAGES: dict[str, str] = _DATA["pages"] | {name: f"/analyses/{{{name}}}/" for name in ANALYSES}
EFFECT_PARTS: dict[str, str] = _DATA["effect_parts"]
SIGNED_OUT: dict[str, str] = _DATA["signed_out"]
NO_PAGE: dict[str, str] = _DATA["no_page"]
EXAMPLES: dict[str, str] = _DATA["examples"]


def page_urls(examples: Mapping[str, str], pages: Mapping[str, str] = PAGES) -> dict[str, str]:
    """Return the path and query of each page. Raise KeyError with the name of a missing example."""
    return {name: url.format_map(examples) for name, url in pages.items()}
