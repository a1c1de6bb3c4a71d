from pathlib import Path

import pytest
from bench.latency import latency_figures, percentile


def write(folder: Path, kind: str, *lines: str) -> None:
    (folder / f"{kind}.1").write_text("".join(f"{line}\n" for line in lines))


def test_latency_runs_from_the_commit_to_the_handler_start(tmp_path: Path) -> None:
    write(tmp_path, "sent", "0 10.000 10.002")
    write(tmp_path, "starts", "0 10.005")
    figures = latency_figures(tmp_path, warm_up=0)
    assert figures["start_p50_ms"] == pytest.approx(3.0)
    assert figures["insert_p50_ms"] == pytest.approx(2.0)


def test_jobs_of_the_warm_up_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, "sent", "0 1.0 1.0", "1 2.0 2.0")
    write(tmp_path, "starts", "0 1.9", "1 2.001")
    assert latency_figures(tmp_path, warm_up=1)["start_p99_ms"] == pytest.approx(1.0)


def test_a_second_attempt_does_not_hide_the_first(tmp_path: Path) -> None:
    write(tmp_path, "sent", "0 1.0 1.0")
    write(tmp_path, "starts", "0 1.001", "0 1.5")
    assert latency_figures(tmp_path, warm_up=0)["start_p50_ms"] == pytest.approx(1.0)


def test_a_job_that_never_started_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "sent", "0 1.0 1.0", "1 1.0 1.0")
    write(tmp_path, "starts", "0 1.1")
    with pytest.raises(ValueError, match="1 of 2 jobs never started"):
        latency_figures(tmp_path, warm_up=0)


def test_percentiles_stay_within_the_values() -> None:
    ordered = [float(value) for value in range(100)]
    assert percentile(ordered, 0.5) == 50
    assert percentile(ordered, 0.99) == 99
    assert percentile([7.0], 0.99) == 7
