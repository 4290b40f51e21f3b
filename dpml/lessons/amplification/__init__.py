"""Why a random sample protects, by how much exactly, and when it does not."""
