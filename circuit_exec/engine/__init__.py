"""Many requests on one program, step by step; no answer depends on what else runs."""
