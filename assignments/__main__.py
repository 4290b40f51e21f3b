"""The command line: `python3 course.py assignment`, with paths relative to the folder from which it is called."""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

USAGE = """python3 course.py assignment --new-seed FILE                     write a secret seed
       python3 course.py assignment --seed FILE [--chapters SLUG ...] COURSE  make a course folder from it
       python3 course.py assignment --collect DOWNLOAD COURSE           take the submissions in a folder or zip
       python3 course.py assignment --grade COURSE                      grade what is new
       python3 course.py assignment --report COURSE                     write tables, notices and feedback pages"""


def main() -> None:
    parser = argparse.ArgumentParser(usage=USAGE)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--new-seed", type=Path, metavar="FILE")
    what.add_argument("--seed", type=Path, metavar="FILE")
    what.add_argument("--collect", type=Path, metavar="DOWNLOAD")
    what.add_argument("--grade", action="store_true")
    what.add_argument("--report", action="store_true")
    parser.add_argument("--chapters", nargs="+", default=[], metavar="SLUG")
    parser.add_argument("--from", type=Path, dest="start", default=Path(), help=argparse.SUPPRESS)
    parser.add_argument("course", type=Path, nargs="?")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of nbgrader's database, and of nbformat on ids that are missing or there twice
    try:
        do(parser, given)
    except (OSError, RuntimeError) as error:  # a path that is too long, read-only, a loop of links
        raise SystemExit(f"Nothing was done, or not all of it: {error}.") from None


def do(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    if given.course is None and given.chapters:  # the last word after --chapters
        given.course = Path(given.chapters.pop())
    if given.course is None and not given.new_seed:
        parser.error("the course folder is missing")
    os.chdir(given.start)
    if given.new_seed:
        from assignments.release import new_seed

        new_seed(given.new_seed)
        print(f"The seed: {given.new_seed}. Whoever has it has all solutions.")
        return
    course = given.course.resolve()
    from assignments import release, report

    if given.seed:
        release.release(given.seed, course, given.chapters)
    elif given.collect:
        report.collect(course, given.collect)
    elif given.grade:
        report.grade(course)
    else:
        report.report(course)


if __name__ == "__main__":
    main()
