"""The lesson of chapter 05, DP-SGD: its explorers and the checks of its exercises."""
