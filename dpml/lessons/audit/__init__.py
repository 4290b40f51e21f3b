"""What runs of a mechanism prove against its promise, how a training run is audited once, and what the last bits of a
number betray.
"""
