r"""The check of the item of chapter 10 that asks for a step of a proof.

.. math::

    d(S, \tilde S) \le d(S', \tilde S) + 1 \quad\text{for every } \tilde S
    \qquad\Longrightarrow\qquad |\Delta(S) - \Delta(S')| \le 1 .
"""

from __future__ import annotations

from typing import Any

from dpml.classroom import checks

__all__ = ["check_why_one"]


def check_why_one(answer: Any) -> None:
    """Two or three sentences: why the safety margin of any function moves by at most 1."""
    checks.argument(
        answer,
        name="why_one",
        minimum_words=25,
        must_mention={
            "a sensitive dataset that the distance leads to": [
                "sensitive",
                "tilde",
                "target",
                "above tau",
                "exceed",
                "> tau",
                "larger than tau",
                "greater than tau",
                "bad",
                "unstable",
                "local sensitivity",
            ],
            "the detour over the neighbour": [
                "triangle",
                "detour",
                "via",
                "through",
                "first",
                "one step",
                "plus 1",
                "+ 1",
                "+1",
                "1 +",
                "plus one",
                "one change",
                "one edit",
                "one more",
                "k+1",
                "k + 1",
                "walk",
                "extend",
                "lipschitz",
            ],
            "that the roles can be exchanged": [
                "symmetr",
                "exchang",
                "swap",
                "roles",
                "other way",
                "both",
                "vice versa",
                "interchang",
                "revers",
                "convers",
                "likewise",
                "in the place of",
                "same argument",
                "other direction",
                "lipschitz",
            ],
        },
        rubric=[
            "Take the sensitive dataset nearest to S': it is as many changes away as the margin of S' says.",
            "From S one change leads to S', and then those changes lead on to it: the margin of S is at most that of "
            "S' plus 1.",
            "Exchange S and S'. Nothing about the function was used: not its values, and not its global sensitivity.",
        ],
    )
