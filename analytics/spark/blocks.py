"""Who holds what within a block of numbered entities, as bits of Python's whole numbers.

A block is a list of holdings; a holding is the positions of some entities in the block (`positions`, from 0) and everybody
who holds them (`users`): a user's own grants with that user, a group's grants with its members. What a user holds is the OR
of the user's holdings, so an entity held twice counts once, and the loops here pass over users and grants, never over pairs
of users and entities.
"""

import sys

import pyarrow as pa
from pyspark import cloudpickle

BLOCK_ENTITIES = 32_768
WORD_BITS = 64
BLOCK_WORDS = BLOCK_ENTITIES // WORD_BITS

HOLDINGS = "array<struct<positions:array<int>,users:array<long>>>"
HELD = "array<struct<user_id:long,held:long>>"
HELD_BITS = "array<struct<user_id:long,words:array<long>>>"

# Python workers, on a cluster above all, need not have this package installed
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def held_in_blocks(blocks: pa.Array) -> pa.Array:
    """HOLDINGS of each block -> HELD: each user with any holding there, and on how many entities."""
    counts, users, held = [], [], []
    for block in blocks:
        bits_by_user = _bits_by_user(block)
        counts.append(len(bits_by_user))
        users.extend(bits_by_user)
        held.extend(bits.bit_count() for bits in bits_by_user.values())
    fields = [pa.array(users, pa.int64()), pa.array(held, pa.int64())]
    return _lists(counts, pa.StructArray.from_arrays(fields, ["user_id", "held"]))


def held_bits_in_blocks(blocks: pa.Array) -> pa.Array:
    """HOLDINGS of each block -> HELD_BITS: the same, with the positions as BLOCK_WORDS words of 64 bits, lowest first."""
    counts, users, words = [], [], []
    for block in blocks:
        bits_by_user = _bits_by_user(block)
        counts.append(len(bits_by_user))
        users.extend(bits_by_user)
        words.extend(bits.to_bytes(BLOCK_ENTITIES // 8, "little") for bits in bits_by_user.values())
    flat = pa.Array.from_buffers(pa.int64(), len(users) * BLOCK_WORDS, [None, pa.py_buffer(b"".join(words))])
    fields = [pa.array(users, pa.int64()), _lists([BLOCK_WORDS] * len(users), flat)]
    return _lists(counts, pa.StructArray.from_arrays(fields, ["user_id", "words"]))


def _bits_by_user(block: pa.ListScalar) -> dict[int, int]:
    holdings = block.values
    positions = holdings.field("positions").to_pylist()
    users = holdings.field("users").to_pylist()
    holdings_by_user: dict[int, list[int]] = {}
    for number, holders in enumerate(users):
        for user in holders:
            holdings_by_user.setdefault(user, []).append(number)
    held = [_bits(places) for places in positions]
    # members of the same groups share one OR
    known: dict[tuple[int, ...], int] = {}
    bits_by_user = {}
    for user, numbers in holdings_by_user.items():
        together = tuple(numbers)
        if together not in known:
            known[together] = _union(held, together)
        bits_by_user[user] = known[together]
    return bits_by_user


def _union(held: list[int], numbers: tuple[int, ...]) -> int:
    bits = 0
    for number in numbers:
        bits |= held[number]
    return bits


def _bits(positions: list[int]) -> int:
    row = bytearray(BLOCK_ENTITIES // 8)
    for position in positions:
        row[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(row, "little")


def _lists(lengths: list[int], values: pa.Array) -> pa.ListArray:
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
