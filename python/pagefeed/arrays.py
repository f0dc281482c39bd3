"""Types of the arrays that the control plane computes with."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Int64Array", "UInt64Array"]

Int64Array: TypeAlias = npt.NDArray[np.int64]
UInt64Array: TypeAlias = npt.NDArray[np.uint64]
