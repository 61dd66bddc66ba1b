"""Proofs of relations: definitions compared node by node, compiled kernels byte by byte, records written."""
