"""The lesson of chapter 00, Before we start: its explorers and the checks of its exercises."""
