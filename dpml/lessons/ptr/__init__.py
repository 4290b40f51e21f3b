"""Noise for a sensitivity that was tested in private: two cases, their exact price, and where a published bound may not
be used.
"""
