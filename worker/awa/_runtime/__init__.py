"""Everything that runs: claiming, executing, finishing, and staying alive."""
