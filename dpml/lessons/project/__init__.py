"""A project of one's own, from its question to a published privacy statement that says no more than holds, with the
rubric by which it is marked.
"""
