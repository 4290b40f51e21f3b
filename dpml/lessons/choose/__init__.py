"""What each of the two roads needs and charges for, measured on the same images at the same ε, and how to choose."""
