"""The search of the site: words count without their accents, and a method is found by its initials too.

Sphinx asks the stemmer of its language for each word, in Python for the index and in the browser for the question.
Both drop the accents first, so that Rényi and Renyi are one word. The initials, which a text may never use, are added
to the words of each passage that names the method.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from sphinx.application import Sphinx
from sphinx.search import SearchEnglish

INITIALS = {
    "sparse vector": "SVT",
    "renyi": "RDP",
    "privacy loss distribution": "PLD",
    "accounting.pld": "PLD",
    "noisy gradient descent": "DP-SGD",
    "propose-test-release": "PTR",
}
STEMMER = """
const Porter = Stemmer;
Stemmer = function () {
  const porter = new Porter();
  this.stemWord = (word) => porter.stemWord(word.normalize("NFD").replace(/\\p{M}/gu, ""));
};
"""


def without_accents(text: str) -> str:
    """The letters alone, each without what stands over or under it."""
    return "".join(letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter))


class PlainEnglish(SearchEnglish):
    """English, in which an accent makes no difference."""

    js_stemmer_code = SearchEnglish.js_stemmer_code + STEMMER

    def split(self, input: str) -> list[str]:
        """The words of a passage and the initials of what it names."""
        text = unicodedata.normalize("NFC", input)
        plain = without_accents(text).lower()
        initials = " ".join(short for name, short in INITIALS.items() if name in plain)
        return list(super().split(f"{text} {initials}"))

    def stem(self, word: str) -> str:
        """The stem of the word without its accents."""
        return str(super().stem(without_accents(word)))


def setup(app: Sphinx) -> dict[str, Any]:
    """Put this language in the place of English."""
    app.add_search_language(PlainEnglish)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
