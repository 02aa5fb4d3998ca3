"""A treemap as plain rectangles: areas in proportion, each as near to a square as the others let it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# width and height, of a desk and of a phone
LANDSCAPE, PORTRAIT = (1_000.0, 300.0), (360.0, 420.0)
_GAP = 2.0
_MARGIN, _LINE, _CHARACTER = 8.0, 18.0, 7.4


@dataclass(frozen=True, slots=True)
class TreemapItem:
    """What a tile stands for. meaning: good, bad, or empty where nothing is known. words: the line below its name."""

    name: str
    area: int
    words: str
    title: str
    url: str = ""
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class TreemapTile:
    """label, words: as much of both as the tile has room for."""

    item: TreemapItem
    x: float
    y: float
    width: float
    height: float
    label: str
    words: str


def treemap(items: Iterable[TreemapItem], size: tuple[float, float] = LANDSCAPE) -> list[TreemapTile]:
    """Largest first, in a space of that width and height. Items without an area are left out."""
    items = sorted((item for item in items if item.area > 0), key=lambda item: (-item.area, item.name))
    total = sum(item.area for item in items)
    scale = size[0] * size[1] / total if total else 0
    return [_tile(item, *place) for item, place in _places(items, scale, *size)]


def _places(items: list[TreemapItem], scale: float, width: float,
            height: float) -> Iterator[tuple[TreemapItem, tuple[float, ...]]]:
    """Each item with x, y, width and height: rows along the shorter side of the space that is left."""
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
        items = items[len(row):]


def _row(areas: list[float], side: float) -> list[float]:
    """As many of the first areas as make their worst rectangle no longer than fewer of them would."""
    row, worst = areas[:1], _worst(areas[:1], side)
    for area in areas[1:]:
        longer = _worst([*row, area], side)
        if longer > worst:
            break
        row.append(area)
        worst = longer
    return row


def _worst(row: list[float], side: float) -> float:
    depth = sum(row) / side
    return max(max(depth * depth / area, area / (depth * depth)) for area in row)


def _tile(item: TreemapItem, x: float, y: float, width: float, height: float) -> TreemapTile:
    width, height = max(width - _GAP, 0.5), max(height - _GAP, 0.5)
    room = int((width - 2 * _MARGIN) / _CHARACTER)
    lines = int((height - _MARGIN) / _LINE)
    # room for the mark before the name
    label = _fitting(item.name, room - 2) if lines >= 1 else ""
    return TreemapTile(item, round(x, 1), round(y, 1), round(width, 1), round(height, 1), label,
                item.words if label and lines >= 2 and len(item.words) <= room else "")


def _fitting(text: str, max_characters: int) -> str:
    if len(text) <= max_characters:
        return text
    return f"{text[:max_characters - 1]}…" if max_characters >= 4 else ""
