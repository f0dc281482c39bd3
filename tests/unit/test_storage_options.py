"""Settings of remote storage: arguments before the environment, checked at once."""

import pytest

from pagefeed.errors import InvalidArgumentError
from pagefeed.remote.options import core_settings, options_as_texts

VARIABLES = ("AWS_ALLOW_HTTP", "HF_ENDPOINT", "HF_TOKEN", "PAGEFEED_CACHE_DIR")


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    return monkeypatch


def settings(**options):
    return core_settings(options_as_texts(options))


def test_names_of_other_libraries_are_known():
    amazon, google, azure = settings(key="id", Secret="s", anon=True)["providers"]
    expected = {"access_key_id": "id", "secret_access_key": "s"}
    assert dict(amazon) == expected | {"skip_signature": "true"}
    assert amazon == google == azure


def test_settings_of_a_provider_reach_no_other():
    given = settings(aws_region="a", google_bearer_token="b", hf_token="c", timeout=2)
    assert given["providers"] == [
        [("aws_region", "a")],
        [("google_bearer_token", "b")],
        [],
    ]
    assert given["hub_token"] == "c"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("deadline", -1), ("deadline", "nan"), ("deadline", "inf")),
        *(("timeout", "soon"), ("max_in_flight", 0), ("max_in_flight", 10**9)),
        *(("max_in_flight", 2.5), ("storage_cache", "200"), ("allow_http", "ture")),
    ],
)
def test_values_are_checked(name, value):
    with pytest.raises(InvalidArgumentError, match=name):
        settings(**{name: value})


def test_arguments_come_before_the_environment(environment, tmp_path):
    assert settings(deadline="2.5")["deadline"].total_seconds() == 2.5
    assert settings(deadline=2, timeout=9)["timeout"].total_seconds() == 2
    assert not settings()["allow_http"]
    environment.setenv("AWS_ALLOW_HTTP", "true")
    assert settings()["allow_http"]
    assert not settings(allow_http="no")["allow_http"]
    environment.setenv("HF_ENDPOINT", "https://mirror/")
    assert settings()["hub_endpoint"] == "https://mirror"
    assert settings(hf_endpoint="http://h")["hub_endpoint"] == "http://h"
    (tmp_path / "token").write_text("left by a login\n")
    assert settings()["hub_token"] == "left by a login"
    environment.setenv("HF_TOKEN", "of the environment")
    assert settings()["hub_token"] == "of the environment"
    assert settings(hf_token="")["hub_token"] is None


def test_a_cache_needs_a_folder(environment, tmp_path):
    with pytest.raises(InvalidArgumentError, match="PAGEFEED_CACHE_DIR"):
        settings(storage_cache="1GB")
    environment.setenv("PAGEFEED_CACHE_DIR", str(tmp_path))
    assert settings(storage_cache="1GB")["cache"] == (str(tmp_path), 10**9)
    environment.setenv("PAGEFEED_CACHE_DIR", "s3://bucket/cache")
    with pytest.raises(InvalidArgumentError, match="on this machine"):
        settings(storage_cache="1GB")


def test_a_token_is_the_hubs_or_goes_with_a_key():
    alone = settings(token="t")
    assert alone["hub_token"] == "t"
    assert alone["providers"][0] == []
    beside = settings(key="k", secret="s", token="t")
    assert beside["hub_token"] is None
    assert dict(beside["providers"][0])["session_token"] == "t"


def test_a_profile_gives_what_nothing_else_names(environment, tmp_path):
    config = tmp_path / "config"
    config.write_text("[profile lab]\nregion = here\nendpoint_url = https://a\n")
    environment.setenv("AWS_CONFIG_FILE", str(config))
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        environment.delenv(name, raising=False)
    given = {"region": "here", "endpoint_url": "https://a"}
    assert dict(settings(profile="lab")["providers"][0]) == given
    assert settings()["providers"][0] == []
    environment.setenv("AWS_REGION", "there")
    named = settings(profile="lab", endpoint_url="https://b")
    assert dict(named["providers"][0]) == {"endpoint_url": "https://b"}
