"""What a whole training run costs: moments, Rényi, the loss distribution, and the famous figure redrawn."""
