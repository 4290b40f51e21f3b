"""The lesson of chapter 03, Amplification by subsampling: its explorers and the checks of its exercises."""
