"""The checks of chapter 07 on proofs: what holds for M_samp, and why a bad event may be free."""

from __future__ import annotations

from typing import Any

from dpml.classroom import checks

__all__ = ["check_coins", "check_samp_claims"]


def check_samp_claims(answer: Any) -> None:
    """Eight statements on M_stab and M_samp, each true or false."""
    checks.statements(
        answer,
        name="claims",
        expected={
            "a": (True, "the output is a function of the noisy distance and of the common answer: post-processing."),
            "b": (False, "at distance 1 a release has probability delta e^epsilon / 2: the threshold is far away."),
            "c": (False, "each run is a mechanism with (epsilon, delta/2), and failing is an output like any other."),
            "d": (True, "the coins do not look at the data, so the event is the same for both neighbours."),
            "e": (
                False,
                "under add/remove n differs between neighbours, and so do the number of parts and what is too often.",
            ),
            "f": (True, "the proof uses only that no record is in more than 2 q n_T parts; the count serves utility."),
            "g": (False, "the votes differ between neighbours, and they are released without any noise."),
            "h": (
                False,
                "in PATE a record is in one part and moves one vote; here it may move 2 q n_T.",
            ),
        },
    )


def check_coins(answer: Any) -> None:
    """Two or three sentences: why the event that a record is in too many parts costs no delta."""
    checks.argument(
        answer,
        name="coins",
        minimum_words=25,
        must_mention={
            "the coins, or the random parts, that decide the event": ["coin", "random", "draw", "parts", "subsampl"],
            "that they do not depend on the data": ["independent", "depend", "regardless", "whatever", "same"],
            "both neighbours": ["neighbour", "neighbor", "both", "d'", "either"],
            "what comes out then": ["fail"],
        },
        rubric=[
            "Which parts a record is in is decided by coins that do not depend on the data.",
            "Use the same coins for D and D': the bad event then happens for both or for neither.",
            "In the bad event both outputs are “fail”, so nothing is lost there; outside of it the bound on the number "
            "of moved votes holds. Averaging over the coins keeps (epsilon, delta/2).",
        ],
    )
