"""Teachers, votes, a student: the noise that a vote needs, what labels cost, why a smaller number stays secret."""
