"""Checks that answer at once: is this right, and if not, which mistake is it?

An item of an exercise is a small function in ``dpml/lessons/<slug>/checks.py`` that hands the student's answer,
a slow reference and the typical mistakes to one of these::

    from dpml.classroom import checks


    def check_scale(answer):
        checks.number(
            answer,
            expected=sensitivity / epsilon,
            name="scale",
            mistakes=[
                checks.Mistake(
                    sensitivity * epsilon,
                    "a smaller epsilon needs more noise, not less.",
                )
            ],
        )

A locked cell of the notebook calls ``items.check_scale(scale)``. It prints one line that starts with a tick,
or raises `NotYet`, which Jupyter shows as one plain sentence.

number            one real number                   choice           one of several answers
function          a function, against a reference   properties       a function, against stated properties
law               a private mechanism, by its law   statements       several statements, each true or false
counterexample    an input that refutes a claim     argument         two sentences, compared with a rubric
together          several checks of one answer      signature        a function of these parameters, called once
form              an answer's form alone, right or wrong
settings          what `function` and `law` call an answer with, from rows of values

Every message says what was tested, what came and which property was expected, never the right value.
"""

from dpml.classroom.answer_checks import argument, choice, counterexample, form, number, statements
from dpml.classroom.calls import settings, signature
from dpml.classroom.function_checks import function, properties
from dpml.classroom.law_check import law
from dpml.classroom.verdict import Mistake, NotYet, together

__all__ = [
    "Mistake",
    "NotYet",
    "argument",
    "choice",
    "counterexample",
    "form",
    "function",
    "law",
    "number",
    "properties",
    "settings",
    "signature",
    "statements",
    "together",
]
