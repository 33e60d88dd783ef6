"""Native code for scalar circuits: stencils of machine code laid end to end, for one point or for vectors of points."""
