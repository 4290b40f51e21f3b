"""When an exact answer may be released, at which price, and what it takes to make any function stable."""
