"""How the figures and the checks work, and whether you are ready."""
