"""The explorers of the chapters, one module a chapter: `dpml.explorers.<slug>` belongs to `notebooks/NN_<slug>.ipynb`.

Each public function returns an `Explorer`. The numbers that it shows come from the functions that the chapter teaches.
"""
