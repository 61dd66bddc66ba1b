"""How each storage format rounds keys and values, written without a line of the project: numpy's f16, torch's bf16."""

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]


def rounded(x: F32, format: str) -> F32:
    """[..., head_dim] each value as its format keeps it."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        match format:
            case "f16":
                return x.astype(np.float16).astype(np.float32)
            case "bf16":
                import torch

                found: F32 = torch.from_numpy(x).to(torch.bfloat16).to(torch.float32).numpy()
                return found
            case "int8":
                magnitude = np.abs(x).max(-1, keepdims=True)  # NaN where one is NaN
                larger = np.where(magnitude < 2.0**-64, 2.0**64, 1.0).astype(np.float32)
                scale = (magnitude * larger / np.float32(127.0)).astype(np.float32)
                codes = np.rint(x * larger * (np.float32(1.0) / scale))
                codes = np.where(np.isfinite(codes), codes, 0.0).astype(np.float32)
                assert np.abs(codes).max() <= 127
                return np.asarray((codes + 0.0) * (scale / larger), np.float32)
    return x
