"""The words of the course are introduced where they are first used, in the chapter that the list of words names."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = re.findall(r"^\| ([^|]+) \| [^|]+ \| (\d\d) \|$", (ROOT / "book" / "words.md").read_text("utf-8"), re.MULTILINE)


def prose() -> list[tuple[str, str]]:
    """The text of all chapters in the order of the course: number and text cell.

    Left out are the first cell, which says what one will be able to do, what is folded, and what to read next.
    """
    found = []
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]*.ipynb")):
        for cell in json.loads(path.read_text("utf-8"))["cells"][1:]:
            if cell["cell_type"] == "markdown":
                text = re.sub(r"(?s)<details.*?</details>", " ", "".join(cell["source"]))
                text, *last = text.split("## What to read next")
                text = re.sub(r"(?s)\$\$.*?\$\$|\$[^$]*\$|`[^`]*`|\[[^\]]*\]\([^)]*\)", " ", text)
                found.append((path.name[:2], text))
                if last:
                    break
    return found


PROSE = prose()


def pattern(word: str) -> str:
    parts = r"\s+".join(map(re.escape, word.removesuffix("s").split()))
    return rf"(?<![\w-]){parts}(?:e?s)?(?![\w-])"


def test_the_list_is_there_and_in_order() -> None:
    words = [word.replace("é", "e") for word, _ in ROWS]
    assert len(words) > 50
    assert words == sorted(words, key=str.casefold)


@pytest.mark.parametrize(("word", "chapter"), ROWS)
def test_a_word_is_introduced_where_it_is_first_used(word: str, chapter: str) -> None:
    number, text = next((one for one in PROSE if re.search(pattern(word), one[1], re.IGNORECASE)), ("never", ""))
    assert number == chapter
    # Emphasised, or in the title of a section, of a theorem or of a definition.
    introduced = rf"\*[^*\n]*{pattern(word)}[^*\n]*\*|^#+ .*{pattern(word)}|^:::+\{{prf:\w+\}} .*{pattern(word)}"
    introduced += rf"|\*\*?{pattern(word)}\*\*?"
    assert re.search(introduced, text, re.IGNORECASE | re.MULTILINE), text[:200]
