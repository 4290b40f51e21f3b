"""The lessons, one folder a chapter: `dpml.lessons.<slug>` belongs to `notebooks/NN_<slug>.ipynb`.

explorers   functions without arguments that return an `Explorer`; its numbers come from what the chapter teaches
checks      `check_...` functions, one for each item of `notebooks/exercises/NN_<slug>.ipynb`
"""
