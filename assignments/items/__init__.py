"""The sheets, a file for each chapter, under the chapter's slug: `make(rng)` draws one."""
