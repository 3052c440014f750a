"""Which lines of the kernels were run: ``python -m tests.core_coverage FOLDER`` after tests with a coverage build."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rayhull.core.build import SOURCE


def main() -> int:
    """One line for each source file, and the lines that were not run."""
    folder = Path(sys.argv[1]).resolve()
    runs: dict[Path, dict[int, int]] = {}
    for notes in sorted(folder.glob("*.gcda")):
        for path, lines in _read(notes).items():
            for number, count in lines.items():
                seen = runs.setdefault(path, {})
                seen[number] = seen.get(number, 0) + count
    for path, lines in sorted(runs.items()):
        missed = sorted(number for number, count in lines.items() if not count)
        share = 100 * (1 - len(missed) / max(1, len(lines)))
        print(f"{path.relative_to(SOURCE)!s:45} {share:6.1f} %  {', '.join(map(str, missed))}")
    total, hit = sum(map(len, runs.values())), sum(sum(c > 0 for c in lines.values()) for lines in runs.values())
    print(f"{'all':45} {100 * hit / max(1, total):6.1f} %")
    return 0 if runs else 1


def _read(notes: Path) -> dict[Path, dict[int, int]]:
    """How often each line of ours was run, as one object file counted it."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["gcov", "--json-format", str(notes)], cwd=scratch, capture_output=True, check=True)
        reports = [json.loads(gzip.decompress(path.read_bytes())) for path in Path(scratch).glob("*.json.gz")]
    found: dict[Path, dict[int, int]] = {}
    for file in (file for report in reports for file in report["files"]):
        path = Path(file["file"]).resolve()
        if path.is_relative_to(SOURCE):
            lines = found.setdefault(path, {})
            for line in file["lines"]:
                lines[line["line_number"]] = lines.get(line["line_number"], 0) + line["count"]
    return found


if __name__ == "__main__":
    sys.exit(main())
