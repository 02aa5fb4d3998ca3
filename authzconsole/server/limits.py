"""The limits on request bodies and responses."""

from dataclasses import dataclass

# larger bodies are only read for identified callers, and are stored in a temporary file
MEMORY_BYTES = 64 * 1024
# responses up to this size are sent immediately; longer ones are generated into a temporary file while they
# are sent
DIRECT_RESPONSE_BYTES = 1024 * 1024
# the generation of a response pauses while the client is this far behind
MAX_BACKLOG_BYTES = 256 * 1024 * 1024
THREADS = 4
# unfinished long responses in additional threads; each needs a database connection
MAX_STREAMS = 24
# of these, how many generate a chunk at the same time; the others wait, so that short requests get the
# processor
MAX_GENERATING = 2
RETRY_AFTER_SECONDS = 5


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """The limits on request bodies of one worker process.

    max_bytes: the longest body of an identified caller. grace_seconds: the time before the minimum rate
    applies.
    min_bytes_per_second: the lowest average rate after that. max_per_address: unfinished bodies from one
    client address.
    max_unfinished: unfinished bodies from all addresses. max_large: unfinished bodies above MEMORY_BYTES.
    """

    max_bytes: int = 32 * 1024 * 1024
    grace_seconds: float = 10
    min_bytes_per_second: int = 10_000
    max_per_address: int = 100
    max_unfinished: int = 1_000
    max_large: int = 16

    def seconds_for(self, received_bytes: int) -> float:
        """Return the time after which a body with this many received bytes is too slow."""
        return self.grace_seconds + received_bytes / self.min_bytes_per_second
