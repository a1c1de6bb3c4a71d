"""Local workers for a manifest: `awa up`.

| module | duty |
|---|---|
| `home` | the folder of a run: its lock, where workers keep their state |
| `stop` | the two steps of stopping: drain, then at once |
| `launch` | how the workers of one queue are started |
| `replica` | one worker: its processes, its output, how busy it is |
| `fleet` | as many workers as are wanted; crashed ones are started again |
| `pilot` | looks at the queue, asks the planner, tells the fleet |
| `events` | what a run tells whoever watches it |
| `run` | the whole: server, schema, fleets, and their end in order |
| `pages` | the metrics of all workers as one, served when asked for |
"""
