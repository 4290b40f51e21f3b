"""A network trained on real images with a stated ε: why each example is clipped, where the noise goes, and norms of
gradients that nobody forms.
"""
