"""The lesson of chapter 02, Composition: its explorers and the checks of its exercises."""
