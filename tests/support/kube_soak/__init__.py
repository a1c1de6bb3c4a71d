"""A randomised proof on a cluster: jobs flow while everything around them fails."""
