"""Outliers, trimming and a private test in one training step; which method wins at truly equal ε, on clean and on
corrupted images.
"""
