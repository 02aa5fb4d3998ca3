"""Execute a notebook: `python -m tests.support.notebooks NOTEBOOK FOLDER` runs its cells in a folder and stores what they print."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

# reads the sources of the cells from standard input, and writes the texts that they print
RUNNER = """
import contextlib, io, json, sys
names, texts = {}, []
for source in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(source, "cell", "exec"), names)
    texts.append(output.getvalue())
json.dump(texts, sys.stdout)
"""


def code_cells(notebook: Mapping) -> list[dict]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def printed_texts(notebook: Mapping, folder: Path, python: Path, variables: Mapping[str, str]) -> list[str]:
    """Execute the code cells in one process and return what each prints."""
    sources = json.dumps(["".join(cell["source"]) for cell in code_cells(notebook)])
    command = [python, "-c", RUNNER]
    done = subprocess.run(command, input=sources, cwd=folder, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-5_000:]
    return json.loads(done.stdout)


def stored_texts(notebook: Mapping) -> list[str]:
    """Return what each code cell printed when the notebook was executed."""
    return ["".join("".join(output["text"]) for output in cell["outputs"]) for cell in code_cells(notebook)]


def store_texts(path: Path, texts: list[str]) -> None:
    """Store what the code cells print."""
    notebook = json.loads(path.read_text())
    for number, (cell, text) in enumerate(zip(code_cells(notebook), texts, strict=True), 1):
        lines = text.splitlines(keepends=True)
        cell["execution_count"] = number
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if text else []
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    import os

    path, folder = Path(sys.argv[1]), Path(sys.argv[2])
    store_texts(path, printed_texts(json.loads(path.read_text()), folder, Path(sys.executable), os.environ))
