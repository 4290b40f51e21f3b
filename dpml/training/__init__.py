"""Private training with PyTorch: per-example gradients, sampling, DP-SGD and its relatives."""
