"""Propose-test-release: noise scaled to a sensitivity that was tested first, and the privacy of doing so."""
