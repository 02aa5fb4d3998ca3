"""AuthZEN evaluation requests, one a line, in; one answer a line, out, in order."""

import json
import os
import sys
from collections.abc import Iterator
from itertools import islice

from django.core.management.base import CommandError

from authzconsole.management.console_command import ConsoleCommand
from grants.active_generation import active_generation
from grants.evaluation.engine import BATCH_SIZE, answer_questions
from grants.policies.question import Question, QuestionError, question_from_json
from grants.strict_json import MalformedJson, json_from_bytes

LONGEST_LINE_BYTES = 1_000_000


class Command(ConsoleCommand):
    help = "Answers AuthZEN evaluation requests: one JSON object a line in, one answer a line out, in the same order."

    def add_arguments(self, parser):
        parser.add_argument("file", nargs="?", default="-", help="a file of requests, or - for standard input")

    def handle(self, *, file, **options):
        try:
            self._answer_all(file)
            self.stdout.flush()
        except BrokenPipeError:
            # whoever read the answers has enough; what is still held for them goes nowhere, and without a word
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _answer_all(self, file: str) -> None:
        generation = active_generation().name
        with _opened(file) as stream:
            lines = lines_of(stream)
            while batch := [read_question(line, generation) for line in islice(lines, BATCH_SIZE)]:
                self.stdout.write("\n".join(json.dumps(answer, ensure_ascii=False) for answer in answer_batch(batch)))


def _opened(file: str):
    if file == "-":
        return sys.stdin.buffer
    try:
        return open(file, "rb")
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror}") from None


def lines_of(stream) -> Iterator[bytes | None]:
    """Each line; None for one longer than `LONGEST_LINE_BYTES`, which is skipped without being held in memory."""
    while line := stream.readline(LONGEST_LINE_BYTES + 1):
        if len(line) <= LONGEST_LINE_BYTES:
            yield line
            continue
        while not line.endswith(b"\n") and (line := stream.readline(LONGEST_LINE_BYTES)):
            pass
        yield None


def read_question(line: bytes | None, generation: str) -> Question | QuestionError:
    """The question of a line, or what is wrong with it."""
    if line is None:
        return QuestionError(f"the line is longer than {LONGEST_LINE_BYTES:,} bytes")
    try:
        return question_from_json(json_from_bytes(line, what="the line"), active_generation=generation)
    except MalformedJson as error:
        return QuestionError(str(error))
    except QuestionError as error:
        return error


def answer_batch(batch: list[Question | QuestionError]) -> Iterator[dict]:
    """One answer for each item, in order. One query for `QUESTIONS_AT_ONCE`."""
    for item, answer in zip(batch, answer_questions(batch), strict=True):
        if isinstance(item, QuestionError):
            yield {"error": str(item)}
        else:
            yield {"error": item.unknown_reason} | answer if item.is_malformed else answer
