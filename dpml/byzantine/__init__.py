"""Byzantine workers: rules for vectors of which some lie, attacks on these, and what noise for privacy does to them."""
