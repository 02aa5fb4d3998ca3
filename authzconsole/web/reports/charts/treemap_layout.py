"""The colour scale of charts, and the layout of treemaps: rectangles with proportional areas, as square as
possible (squarified treemap).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import ceil, sqrt

from entities.frozen import frozen

COLOR_STEPS = 5
# (width, height) for wide screens and for phones
LANDSCAPE, PORTRAIT = (1_000.0, 340.0), (360.0, 460.0)
_GAP = 2.0
# of a tile with others inside: the line of its name, the space around the others, and its smallest side
_HEAD, _INSET, _SMALLEST_WITH_PARTS = 26.0, 4.0, 56.0
_MARGIN, _LINE, _CHARACTER = 8.0, 18.0, 7.4
# fewer characters of a name tell nothing
_FEWEST_CHARACTERS = 8


def color_step(amount: int, largest: int) -> int:
    """Return the step of an amount, from 0 (none) to COLOR_STEPS.

    The scale is a square root, so that one large value does not make all others look the same.
    """
    return ceil(COLOR_STEPS * sqrt(amount / largest)) if amount else 0


def shade_of(part: int, total: int) -> int:
    """Return the step of a share, from 1 (little) to COLOR_STEPS (all); 0 if the part is 0."""
    return min(COLOR_STEPS, ceil(COLOR_STEPS * part / total)) if part and total else 0


@frozen
class TreemapItem:
    """The content of a tile.

    caption: the line below its name. meaning: good, bad, a colour step, or empty if unknown. shade: how strong the colour of
    the meaning is, from 0 to COLOR_STEPS. parts: the tiles inside.
    """

    name: str
    area: int
    caption: str
    title: str
    url: str = ""
    meaning: str = ""
    shade: int = 0
    parts: tuple["TreemapItem", ...] = ()


@frozen
class TreemapTile:
    """A placed item. label: its name, clipped to the width of the tile; empty if little of it fits. caption: empty if it does
    not fit.

    parts: the placed parts; empty if the tile is too small for them.
    """

    item: TreemapItem
    x: float
    y: float
    width: float
    height: float
    label: str
    caption: str
    parts: tuple["TreemapTile", ...] = ()


def treemap(items: Iterable[TreemapItem], size: tuple[float, float] = LANDSCAPE) -> list[TreemapTile]:
    """Return the tiles, largest first.

    Items with an area of 0 are skipped. size: (width, height) of the chart.
    """
    items = sorted((item for item in items if item.area > 0), key=lambda item: (-item.area, item.name))
    total = sum(item.area for item in items)
    scale = size[0] * size[1] / total if total else 0
    return [_tile(item, *rectangle) for item, rectangle in _rectangles(items, scale, *size)]


def _rectangles(
    items: list[TreemapItem], scale: float, width: float, height: float
) -> Iterator[tuple[TreemapItem, tuple[float, ...]]]:
    """Yield each item with x, y, width and height.

    Rows are placed along the shorter side of the remaining space.
    """
    x, y = 0.0, 0.0
    while items:
        side = min(width, height)
        row = _row([item.area * scale for item in items], side)
        depth = sum(row) / side
        offset = 0.0
        for item, area in zip(items, row, strict=False):
            length = area / depth
            yield item, (x, y + offset, depth, length) if width >= height else (x + offset, y, length, depth)
            offset += length
        if width >= height:
            x, width = x + depth, width - depth
        else:
            y, height = y + depth, height - depth
        items = items[len(row) :]


def _row(areas: list[float], side: float) -> list[float]:
    """Return the first areas that form one row: areas are added while the worst aspect ratio does not get
    worse.
    """
    row, worst = areas[:1], _worst_aspect_ratio(areas[:1], side)
    for area in areas[1:]:
        longer = _worst_aspect_ratio([*row, area], side)
        if longer > worst:
            break
        row.append(area)
        worst = longer
    return row


def _worst_aspect_ratio(row: list[float], side: float) -> float:
    depth = sum(row) / side
    return max(max(depth * depth / area, area / (depth * depth)) for area in row)


def _tile(item: TreemapItem, x: float, y: float, width: float, height: float) -> TreemapTile:
    width, height = max(width - _GAP, 0.5), max(height - _GAP, 0.5)
    max_characters = int((width - 1.5 * _MARGIN) / _CHARACTER)
    lines = int((height - _MARGIN) / _LINE)
    # leave space for the icon before the name, and for the wide character after a clipped one
    width_of_name = max_characters - (2 if len(item.name) <= max_characters - 2 else 3)
    label = clip(item.name, width_of_name, fewest=_FEWEST_CHARACTERS) if lines >= 1 else ""
    caption = item.caption if label and lines >= 2 and len(item.caption) <= max_characters else ""
    sides = {
        name: round(side, 1) for name, side in (("x", x), ("y", y), ("width", width), ("height", height))
    }
    return TreemapTile(item, **sides, label=label, caption=caption, parts=_parts(item, x, y, width, height))


def _parts(item: TreemapItem, x: float, y: float, width: float, height: float) -> tuple[TreemapTile, ...]:
    """Return the tiles inside, below the name of the item."""
    if min(width, height) < _SMALLEST_WITH_PARTS or not item.parts:
        return ()
    tiles = treemap(item.parts, (width - 2 * _INSET, height - _HEAD - _INSET))
    return tuple(
        replace(tile, x=round(tile.x + x + _INSET, 1), y=round(tile.y + y + _HEAD, 1)) for tile in tiles
    )


def clip(text: str, max_characters: int, *, fewest: int = 4) -> str:
    """Return the text, clipped to a number of characters; empty if this is less than `fewest`."""
    if len(text) <= max_characters:
        return text
    return f"{text[: max_characters - 1]}…" if max_characters >= fewest else ""
