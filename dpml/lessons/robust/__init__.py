"""The lesson of chapter 11, Private and robust SGD: its explorers and the checks of its exercises."""
