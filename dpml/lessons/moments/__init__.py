"""The lesson of chapter 04, The moments accountant: its explorers and the checks of its exercises."""
