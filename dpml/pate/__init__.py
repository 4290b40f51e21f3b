"""Private aggregation of teacher ensembles, privacy by stability, and the sparse vector technique."""
