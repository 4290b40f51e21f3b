"""What many releases cost together, why about √k, and how to keep the books."""
