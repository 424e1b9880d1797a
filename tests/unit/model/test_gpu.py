"""What a task asks of GPUs."""

from __future__ import annotations

import pytest

from pumice.errors import InvalidInput
from pumice.model.gpu import GpuRequest, gpu_request
from pumice.model.resources import EMPTY, Resources


@pytest.mark.parametrize(
    ("requests", "annotations", "wanted"),
    [
        (EMPTY, (None, None, None), None),
        (Resources.parse({"nvidia.com/gpu": "2"}), (None, None, None), GpuRequest(2, 1000)),
        (Resources.parse({"volcano.sh/gpu-number": "1"}), (None, None, None), GpuRequest(1, 1000)),
        (Resources.parse({"volcano.sh/gpu-memory": "4096"}), (None, None, None), GpuRequest(1, 0, 4096)),
        (EMPTY, ("0.5", None, None), GpuRequest(1, 500, part=0.5)),
        (EMPTY, ("0.3333", None, None), GpuRequest(1, 334, part=0.3333)),
        (EMPTY, (".5", None, None), GpuRequest(1, 500, part=0.5)),
        (EMPTY, ("0.25", None, "2"), GpuRequest(2, 250, part=0.25)),
        (EMPTY, (None, "2000", None), GpuRequest(1, 0, 2000)),
    ],
)
def test_every_way_of_asking_becomes_one_form(
    requests: Resources, annotations: tuple[str | None, ...], wanted: GpuRequest | None
) -> None:
    assert gpu_request(requests, annotations) == wanted


@pytest.mark.parametrize(
    ("annotations", "named"),
    [
        (("1.5", None, None), "gpu-fraction"),
        (("0", None, None), "gpu-fraction"),
        (("half", None, None), "gpu-fraction"),
        (("1/3", None, None), "gpu-fraction"),
        (("1e-999999999", None, None), "gpu-fraction"),
        (("0." + "0" * 100_000 + "1", None, None), "gpu-fraction"),
        (("٠.٥", None, None), "gpu-fraction"),
        ((None, "9" * 17, None), "gpu-memory"),
        ((None, "9" * 5000, None), "gpu-memory"),
        ((None, "٩", None), "gpu-memory"),
        (("0.5", None, "9" * 5000), "gpu-fraction-num-devices"),
        ((None, "-3", None), "gpu-memory"),
        (("0.5", None, "0"), "gpu-fraction-num-devices"),
        ((None, None, "2"), "needs gpu-fraction or gpu-memory"),
        (("0.5", "100", None), "cannot be asked for together"),
    ],
)
def test_a_bad_request_is_named(annotations: tuple[str | None, ...], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        gpu_request(EMPTY, annotations)


def test_shares_and_whole_devices_exclude_each_other() -> None:
    with pytest.raises(InvalidInput, match="cannot be asked for together"):
        gpu_request(Resources.parse({"nvidia.com/gpu": "1"}), ("0.5", None, None))
