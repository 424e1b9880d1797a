"""Each command of docs/kubernetes.md is run on a cluster like the one it is meant for, and does what the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kube_bed import ROOT, Refusal, until
from kube_reader import Reader, chapters, reading

PAGE = "kubernetes.md"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A reader with an empty cluster of one node."""
    with reading(PAGE, tmp_path) as made:
        yield made


def test_tried_from_ones_own_machine_the_gang_of_the_page_is_bound(reader: Reader) -> None:
    printed = reader.follow("Try it from your machine")
    assert "podgroup.scheduling.volcano.sh/hello" in printed
    until(lambda: reader.bound("hello"), 40, "the gang of the page is bound")
    assert reader.processes[0].stop() == 0


def test_installed_alone_it_schedules_and_conf_and_plugins_are_changed_as_the_page_says(reader: Reader) -> None:
    printed = reader.follow("Install it alone")
    assert "deployment.apps/pumice-scheduler" in printed
    scheduler = reader.start("pumice-scheduler")
    until(reader.gang("one", "pumice"), 40, "the first gang is bound")
    assert "networkpolicy.networking.k8s.io/pumice-scheduler" in reader.follow("Replicas, ports, placement")
    printed = reader.follow("Rules at the door")
    assert "pumice-podgroups" in printed
    assert "The most that the queue may use" in printed  # kubectl explain shows the descriptions of the CRDs
    reader.follow("Rights")
    reader.follow("Change the conf")
    until(lambda: scheduler.log.count("from the next cycle on") == 2, 20, "the conf of the page is in use")
    until(reader.gang("two", "pumice"), 40, "the second gang is bound")
    assert scheduler.stop() == 0
    reader.follow("Plugins of your own")
    with_plugin = reader.start("pumice-scheduler")
    until(reader.gang("three", "pumice"), 40, "the third gang is bound")
    assert with_plugin.stop() == 0
    assert "cannot be used" not in scheduler.log + with_plugin.log
    printed = reader.follow("Watch it work")
    reader.follow("Why does it wait?")
    assert "three" in printed
    dashboard = reader.bed.call("GET", "/api/v1/namespaces/pumice-system/configmaps/pumice-dashboard")
    assert "pumice_leading" in dashboard["data"]["pumice.json"]


def test_without_helm_scheduler_and_controllers_are_installed(reader: Reader) -> None:
    reader.follow("Without Helm")
    scheduler, controllers = reader.start("pumice-scheduler"), reader.start("pumice-controllers")
    until(reader.gang("one", "pumice"), 40, "the gang is bound")
    bare = yaml.safe_load((ROOT / "examples" / "kubernetes" / "gang.yaml").read_text(encoding="utf-8").split("---")[1])
    bare["metadata"] = {"name": "bare", "namespace": "default"}
    reader.bed.create(bare)
    where = "/api/v1/namespaces/default/pods/bare"
    until(lambda: reader.bed.call("GET", where)["spec"].get("nodeName"), 40, "a bare pod gets a PodGroup and a node")
    assert (scheduler.stop(), controllers.stop()) == (0, 0)


def test_beside_volcano_each_scheduler_keeps_to_its_pods(reader: Reader) -> None:
    reader.volcano()
    reader.follow("Install it beside Volcano")
    scheduler = reader.start("pumice-scheduler")
    theirs = reader.gang("theirs", "volcano")
    until(reader.gang("ours", "pumice"), 40, "our gang is bound")
    assert (theirs(), reader.replicas(), scheduler.stop()) == (False, 1, 0)


def test_instead_of_volcanos_scheduler_it_takes_its_name_and_its_conf_and_gives_them_back(reader: Reader) -> None:
    reader.volcano()
    reader.follow("Install it instead of Volcano's scheduler")
    assert reader.replicas() == 0
    scheduler = reader.start("pumice-scheduler")
    until(reader.gang("theirs", "volcano"), 40, "a gang of Volcano's is bound")
    assert "cannot be used" not in scheduler.log
    lease = "/apis/coordination.k8s.io/v1/namespaces/pumice-system/leases/volcano"
    assert reader.bed.call("GET", lease)["spec"]["holderIdentity"]
    assert scheduler.stop() == 0
    reader.follow("And back")
    assert reader.replicas() == 1
    with pytest.raises(Refusal, match="not found"):
        reader.start("pumice-scheduler")


def test_every_chapter_with_commands_has_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    followed = set(re.findall(r'follow\("(.+?)"\)', source))
    found = chapters(PAGE)
    only_docker = {heading for heading, commands in found.items() if all(c.startswith("docker ") for c in commands)}
    assert followed | only_docker == set(found)
    assert only_docker == {"The image"}
