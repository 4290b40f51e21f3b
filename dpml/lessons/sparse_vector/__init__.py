"""The lesson of chapter 08, The sparse vector technique: its explorers and the checks of its exercises."""
