"""The lesson of chapter 10, Propose-test-release: its explorers and the checks of its exercises."""
