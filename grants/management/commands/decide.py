"""Read AuthZEN evaluation requests, one per line, and write one answer per line in the same order."""

import json
from collections.abc import Iterator
from itertools import islice

from grants.active_generation import active_generation
from grants.evaluation.engine import BATCH_SIZE, answer_questions
from grants.history import at_moment, catch_up, group_by_moment
from grants.management.console_command import ConsoleCommand, opened_input
from grants.policies.question import Question, QuestionError, question_from_json
from grants.strict_json import MalformedJson, json_from_bytes

MAX_LINE_BYTES = 1_000_000


class Command(ConsoleCommand):
    help = "Answer AuthZEN evaluation requests: read one JSON object per line, write one answer per line in the same order."

    def add_arguments(self, parser):
        parser.add_argument(
            "file", nargs="?", default="-", help="a file of requests, or - for standard input"
        )

    def handle(self, *, file, **options):
        generation = active_generation().name
        with opened_input(file) as stream:
            lines = lines_of(stream)
            while batch := [read_body(line) for line in islice(lines, BATCH_SIZE)]:
                answers = answers_in_order(batch, generation)
                self.stdout.write("\n".join(json.dumps(answer, ensure_ascii=False) for answer in answers))


def lines_of(stream) -> Iterator[bytes | None]:
    """Yield each line; None for a line longer than MAX_LINE_BYTES, which is never kept in memory as a whole."""
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) <= MAX_LINE_BYTES:
            yield line
            continue
        while not line.endswith(b"\n") and (line := stream.readline(MAX_LINE_BYTES)):
            pass
        yield None


def read_body(line: bytes | None) -> object:
    """Return the request on a line, or a QuestionError if the line is not JSON."""
    if line is None:
        return QuestionError(f"the line is longer than {MAX_LINE_BYTES:,} bytes")
    try:
        return json_from_bytes(line, text_name="the line")
    except MalformedJson as error:
        return QuestionError(str(error))


def answers_in_order(bodies: list, generation: str) -> list[dict]:
    """Return the answers to requests, in order. Requests about the same state and time are answered together.

    generation: the active one of the present.
    """
    positions, errors = group_by_moment(bodies, max_moments=None)
    if any(moment.revision is not None for moment in positions):
        catch_up()
    answers = dict(zip(errors, answer_batch(list(errors.values())), strict=True))
    for moment, group in positions.items():
        revision = moment.revision
        with at_moment(moment):
            of_revision = generation if revision is None else active_generation().name
            questions = [_question(bodies[position], of_revision) for position in group]
            group_answers = list(answer_batch(questions))
        if revision is not None:
            group_answers = [
                answer | {"context": {**answer.get("context", {}), "as_of": revision}}
                for answer in group_answers
            ]
        answers.update(zip(group, group_answers, strict=True))
    return [answers[position] for position in range(len(bodies))]


def _question(body: object, generation: str) -> Question | QuestionError:
    if isinstance(body, QuestionError):
        return body
    try:
        return question_from_json(body, active_generation=generation)
    except QuestionError as error:
        return error


def answer_batch(batch: list[Question | QuestionError]) -> Iterator[dict]:
    """Yield one answer for each item, in order. Runs the same queries as `answer_questions`."""
    for item, answer in zip(batch, answer_questions(batch), strict=True):
        if isinstance(item, QuestionError):
            yield {"error": str(item)}
        else:
            yield {"error": item.unknown_reason} | answer if item.is_malformed else answer
