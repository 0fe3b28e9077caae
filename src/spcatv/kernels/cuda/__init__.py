"""The primal-dual iteration and vectors on a GPU, by CuPy."""
