"""A conf that is shown holds nothing that lets somebody in."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.config import DEFAULT_CONF, load
from pumice.config.explain import MASK, conf_text, without_secrets
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import catalogue_of


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://licences:8443/v1", "https://licences:8443/v1"),
        ("https://bob:hunter2@licences:8443/v1", "https://***@licences:8443/v1"),
        ("https://hunter2@licences", "https://***@licences"),
        ("https://licences/v1?key=hunter2&debug", "https://licences/v1?key=***&***"),
        ("https://licences/#hunter2", "https://licences/#***"),
        ("see postgres://a:hunter2@db/x and https://b:hunter2@c", "see postgres://***@db/x and https://***@c"),
        ("http://[hunter2", MASK),
        ("plain", "plain"),
    ],
)
def test_an_address_is_shown_without_who_asks_and_what_is_handed_over(given: str, shown: str) -> None:
    assert without_secrets({"extender.urlPrefix": given}) == {"extender.urlPrefix": shown}


@pytest.mark.parametrize(
    "name",
    [
        *("token", "extender.token", "bearerToken", "PASSWORD", "passwd", "clientSecret", "credentials", "apiKey"),
        *("api-key", "X-Api-Key", "Authorization", "basicAuth", "Cookie", "headers", "privateKey", "private_key"),
    ],
)
def test_values_that_are_named_as_secrets_are_masked_however_deep(name: str) -> None:
    deep: Any = {name: {"any": ["hunter2", {"x": "hunter2"}]}}
    for data in ({name: "hunter2"}, {name: ["hunter2"]}, deep, {"arguments": [{"more": deep}]}):
        assert "hunter2" not in str(without_secrets(data))
        assert MASK in str(without_secrets(data))


def test_numbers_switches_and_places_of_files_stay() -> None:
    data = {"extender.tokenFile": "/run/token", "keyFile": "/k", "authRetries": 3, "tokenRefresh": True, "weight": 1.5}
    assert without_secrets(data) == data


def test_a_conf_without_secrets_is_shown_as_it_is_and_reads_back() -> None:
    catalogue = catalogue_of(default_registry())
    conf = load(DEFAULT_CONF, catalogue, "<default>").conf
    assert load(conf_text(conf), catalogue, "shown").conf == conf
