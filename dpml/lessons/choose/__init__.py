"""The lesson of chapter 09, DP-SGD or PATE?: its explorers and the checks of its exercises."""
