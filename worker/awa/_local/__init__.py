"""An embedded PostgreSQL for `awa up`: where no database is at hand, one is made in `.awa/`.

| module | duty |
|---|---|
| `postgres` | the door: `EmbeddedPostgres` starts, finds and stops a server |
| `options` | what can be chosen |
| `launch` | start a server and wait until it is ready |
| `session` | log in, and make the database |
| `command` | the command lines of initdb and of the server |
| `diagnosis` | why a server has ended |
| `binaries` | which PostgreSQL programs to run, and from where |
| `place` | where the files lie and which user runs the server |
| `cluster` | what is known about one data folder: password, lock, who runs it |
| `account` | the unprivileged user that runs the server when we are root |
| `orphans` | what is left of a server whose guard is gone |
| `guarded` | the owner's end of the guard |
| `guard` | the process between us and the server; it never lets the server outlive us |
| `errors` | what can go wrong, and what to do then |
"""
