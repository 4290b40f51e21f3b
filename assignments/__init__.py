"""Graded assignments: other instances of the exercises, drawn from an instructor's secret seed, and their grading.

`python3 course.py assignment --seed FILE TARGET` makes a course folder for nbgrader from the sheets in `items/`.
The answers that students hand in run in a process of their own, which has no way to the verdict: `grader.py` runs the
tests, and sees of an answer only plain values, and functions that it calls across the border (`answers.py`).

This folder is no part of the package that students install. What a seed draws is in the course folder alone.
"""
