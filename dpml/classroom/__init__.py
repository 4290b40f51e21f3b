"""What a classroom needs around the mathematics: explorers, figures, checks of exercises, students' copies.

This package imports no room of the course: explorers and checks receive functions as arguments.
"""
