"""From noise on an image to a prediction that provably stays; why one noise for all images hides none of them, and
what repairs it.
"""
