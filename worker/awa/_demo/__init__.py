"""The demo: the thumbnails example with a few hundred real images, from nothing to its outputs.

| module | duty |
|---|---|
| `example` | find the example beside this installation |
| `pictures` | let the example make its image files, some of them damaged |
| `errand` | enqueue a job for each file, and follow them to their ends |
| `findings` | what has become of the jobs, and how fast |
"""
