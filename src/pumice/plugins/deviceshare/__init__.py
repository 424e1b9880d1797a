"""deviceshare: several tasks on one GPU, each with its part of the memory and the cores."""

from pumice.plugins.deviceshare.deviceshare import DeviceShare

__all__ = ["DeviceShare"]
