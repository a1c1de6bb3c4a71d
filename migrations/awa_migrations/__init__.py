"""The PostgreSQL schema of the Awa job queue, and how to move it."""
