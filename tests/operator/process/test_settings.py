"""Settings come from the environment alone, and what is wrong is named."""

import pytest

from awa_operator.errors import SettingsError
from awa_operator.settings import OperatorSettings


def load(**environ: str) -> OperatorSettings:
    return OperatorSettings.from_environment(
        {f"AWA_OPERATOR_{name}": value for name, value in environ.items()}
    )


def test_nothing_set_gives_defaults_and_an_identity_of_its_own():
    one, other = load(), load()
    assert one.namespaces == ()
    assert one.health_port == 8080
    assert one.identity != other.identity


def test_namespaces_are_a_list_with_commas():
    assert load(NAMESPACES=" b, a,,b ").namespaces == ("a", "b")


def test_an_empty_value_counts_as_not_set():
    assert load(HEALTH_PORT="", NAMESPACES=" ").health_port == 8080


def test_what_kubernetes_sets_for_a_service_of_that_name_is_no_setting():
    assert load(METRICS_PORT="tcp://10.0.0.1:9090").metrics_port == 9090


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEALTH_PORT", "http"),
        ("HEALTH_PORT", "70000"),
        ("LOG_LEVEL", "loud"),
        ("NAMESPACES", "ok,Not_OK"),
        ("RESYNC_SECONDS", "-1"),
        ("CONCURRENCY", "0"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(name, value):
    with pytest.raises(SettingsError, match=f"AWA_OPERATOR_{name}: "):
        load(**{name: value})


def test_every_wrong_value_is_named_at_once():
    with pytest.raises(SettingsError) as raised:
        load(HEALTH_PORT="x", METRICS_PORT="y")
    assert "HEALTH_PORT" in str(raised.value)
    assert "METRICS_PORT" in str(raised.value)


def test_a_lease_that_could_not_be_renewed_in_time_is_refused():
    with pytest.raises(SettingsError, match="LEASE_RENEW_SECONDS"):
        load(LEASE_DURATION_SECONDS="10", LEASE_RENEW_SECONDS="10")


def test_a_kubeconfig_may_be_named_in_the_usual_way(tmp_path):
    found = OperatorSettings.from_environment({"KUBECONFIG": str(tmp_path / "config")})
    assert found.kubeconfig == tmp_path / "config"
