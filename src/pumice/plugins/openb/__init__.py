"""Scores for shared GPUs: six policies of the fragmentation study of Weng et al. (USENIX ATC 2023), as plugins.

``random``, ``dotprod``, ``bestfit``, ``gpuclustering``, ``gpupacking`` and ``fgd``. Each also orders the devices of a
node, for tasks that ask for a part of one.
"""

from pumice.plugins.openb.fgd import Fgd
from pumice.plugins.openb.gpu_packing import GpuClustering, GpuPacking
from pumice.plugins.openb.vectors import BestFit, DotProd, RandomNode

__all__ = ["BestFit", "DotProd", "Fgd", "GpuClustering", "GpuPacking", "RandomNode"]
