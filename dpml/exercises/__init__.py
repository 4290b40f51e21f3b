"""The checks of the exercises: `dpml.exercises.<slug>` belongs to `notebooks/exercises/NN_<slug>.ipynb`.

Each public function checks one answer: it prints a line that starts with a tick, or raises `checks.NotYet` with the
reason. The expected values come from the functions that the chapter teaches; no message holds one of them.
"""
