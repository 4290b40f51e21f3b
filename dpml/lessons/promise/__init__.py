"""The lesson of chapter 01, What differential privacy promises: its explorers and the checks of its exercises."""
