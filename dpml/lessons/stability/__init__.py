"""The lesson of chapter 07, Privacy by stability: its explorers and the checks of its exercises."""
