"""The lesson of chapter 06, PATE: teachers that vote: its explorers and the checks of its exercises."""
