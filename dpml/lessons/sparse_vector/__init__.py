"""Many questions of which few are paid for; how this is broken, and when it pays."""
