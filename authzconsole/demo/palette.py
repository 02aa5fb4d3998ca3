"""A picture of a page as a PNG of few colours: a fifth of the size, and no difference that a reader sees."""

import struct
import zlib

import numpy as np

MOST_COLOURS = 64


def png_of(pixels: np.ndarray) -> bytes:
    """pixels: (height, width, 4), uint8; the last is not looked at."""
    colours, places, counts = np.unique(pixels[..., :3].astype(np.uint32) @ np.array([65_536, 256, 1], np.uint32),
                                        return_inverse=True, return_counts=True)
    kept = _kept(colours, counts)
    indices = _nearest(colours, kept)[places].reshape(pixels.shape[:2])
    height, width = indices.shape
    # before each line its filter, which is none: it would spoil what repeats
    lines = np.concatenate([np.zeros((height, 1), np.uint8), indices], axis=1)
    return b"".join((
        b"\x89PNG\r\n\x1a\n",
        _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        _chunk(b"PLTE", _parts(kept).astype(np.uint8).tobytes()),
        _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
        _chunk(b"IEND", b""),
    ))


def _kept(colours: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The most frequent, and again and again the one that is missed most: often seen, or like none of those before."""
    parts, chosen = _parts(colours), [int(counts.argmax())]
    distances = np.abs(parts - parts[chosen[0]]).sum(axis=1)
    while len(chosen) < MOST_COLOURS and distances.any():
        chosen.append(int((np.sqrt(counts) * distances).argmax()))
        distances = np.minimum(distances, np.abs(parts - parts[chosen[-1]]).sum(axis=1))
    return colours[chosen]


def _nearest(colours: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """For each colour the place of the most similar one that is kept."""
    distances = np.abs(_parts(colours)[:, None, :] - _parts(kept)[None, :, :]).sum(axis=2)
    return distances.argmin(axis=1).astype(np.uint8)


def _parts(colours: np.ndarray) -> np.ndarray:
    """Red, green and blue of each."""
    return np.stack([colours >> 16 & 255, colours >> 8 & 255, colours & 255], axis=1).astype(np.int32)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
